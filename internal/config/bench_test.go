package config

import "testing"

func BenchmarkLoad(b *testing.B) {
	opts := Options{Dir: b.TempDir(), Home: b.TempDir()}
	for b.Loop() {
		if _, err := Load(opts); err != nil {
			b.Fatal(err)
		}
	}
}
