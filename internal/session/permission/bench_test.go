package permission

import "testing"

func BenchmarkDecideScript(b *testing.B) {
	rules := Merge(Layers{Defaults: Defaults(), User: rules("deny bash:rm *")})
	for b.Loop() {
		DecideScript(rules, Commands("cd sub && go test ./... 2>&1 | tail -20; git status --short"))
	}
}
