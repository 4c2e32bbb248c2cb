package session

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Tokens counts what a model call used. The fields are disjoint: cached tokens
// are not in Input, reasoning is not in Output.
type Tokens struct {
	Total     int64 `json:"total,omitempty"` // as the provider says; 0 when it does not
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cache     Cache `json:"cache"`
}

// Cache counts prompt tokens that were read from or written to a cache.
type Cache struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

// Add is the sum of both, field by field.
func (t Tokens) Add(u Tokens) Tokens {
	return Tokens{
		Total:     t.Sum() + u.Sum(),
		Input:     t.Input + u.Input,
		Output:    t.Output + u.Output,
		Reasoning: t.Reasoning + u.Reasoning,
		Cache:     Cache{Read: t.Cache.Read + u.Cache.Read, Write: t.Cache.Write + u.Cache.Write},
	}
}

// Sum is Total where the provider gave one, else the sum of the fields.
func (t Tokens) Sum() int64 {
	if t.Total > 0 {
		return t.Total
	}
	return t.Input + t.Output + t.Reasoning + t.Cache.Read + t.Cache.Write
}

// Money is an amount in picodollars (1e-12 USD): prices are given per million
// tokens with up to six decimals, so every sum is exact.
type Money int64

// picoPerDollar is one USD in the unit of Money.
const picoPerDollar = 1_000_000_000_000

// ParseMoney reads a decimal number of US dollars such as "0.10" or "1e-7".
// Digits below 1e-12 USD are rounded half away from zero.
func ParseMoney(s string) (Money, error) {
	r, ok := new(big.Rat).SetString(strings.TrimSpace(s))
	if !ok {
		return 0, fmt.Errorf("%q is not an amount of money", s)
	}
	r.Mul(r, big.NewRat(picoPerDollar, 1))
	i, ok := new(big.Int).SetString(r.FloatString(0), 10)
	if !ok || !i.IsInt64() {
		return 0, fmt.Errorf("amount %q is out of range", s)
	}
	return Money(i.Int64()), nil
}

// String is the shortest exact decimal number of US dollars: "0.0012".
func (m Money) String() string {
	sign, v := "", uint64(m)
	if m < 0 {
		sign, v = "-", -v
	}
	whole, frac := v/picoPerDollar, v%picoPerDollar
	if frac == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}
	digits := strings.TrimRight(fmt.Sprintf("%012d", frac), "0")
	return sign + strconv.FormatUint(whole, 10) + "." + digits
}

// MarshalJSON writes a JSON number of US dollars.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a JSON number of US dollars.
func (m *Money) UnmarshalJSON(b []byte) error {
	v, err := ParseMoney(string(b))
	if err != nil {
		return err
	}
	*m = v
	return nil
}
