package tools

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"
)

// anyOf is a set of strings of which every match holds at least one.
type anyOf [][]byte

// maxAnyOf bounds a set: looking for many strings is no faster than the
// expression.
const maxAnyOf = 8

// requiredLiterals finds the sets of which every match of the pattern must
// hold one each, the rarest first.
func requiredLiterals(pattern string) []anyOf {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	sets := literalsOf(re.Simplify())
	slices.SortStableFunc(sets, func(a, b anyOf) int { return cmp.Compare(rarity(b), rarity(a)) })
	for len(sets) > 0 && rarity(sets[len(sets)-1]) == 0 {
		sets = sets[:len(sets)-1]
	}
	return sets
}

func literalsOf(re *syntax.Regexp) []anyOf {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []anyOf{{[]byte(string(re.Rune))}}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literalsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalsOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var all []anyOf
		for _, sub := range re.Sub {
			all = append(all, literalsOf(sub)...)
		}
		return all
	case syntax.OpAlternate:
		// One set that has the rarest of each branch.
		var one anyOf
		for _, sub := range re.Sub {
			sets := literalsOf(sub)
			if len(sets) == 0 {
				return nil
			}
			best := slices.MaxFunc(sets, func(a, b anyOf) int { return cmp.Compare(rarity(a), rarity(b)) })
			if one = append(one, best...); len(one) > maxAnyOf {
				return nil
			}
		}
		return []anyOf{one}
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpCharClass, syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpBeginLine,
		syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpStar, syntax.OpQuest:
	}
	return nil
}

// rarity guesses how seldom a set is found: the length of its shortest member,
// less where that is one character that most lines of text hold.
func rarity(set anyOf) int {
	if len(set) == 0 {
		return 0
	}
	least := 2 * len(set[0])
	for _, l := range set {
		r := 2 * len(l)
		if len(l) == 1 && strings.ContainsAny(string(l), "abcdefghilmnoprstu .,()=\t") {
			r = 0
		} else if len(l) == 1 && l[0] >= 'a' && l[0] <= 'z' {
			r = 1
		}
		least = min(least, r)
	}
	return least
}
