package permission

import (
	"strings"
	"testing"

	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCommands(t *testing.T) {
	list := func(s ...string) []string { return s }
	tests := []struct {
		script     string
		commands   []string
		unreadable bool
	}{
		{"git status", list("git status"), false},
		{"git  status \\\n --short", list("git status --short"), false},
		{`"rm" -f 'keep'`, list("rm -f keep"), false},
		{`\rm r''m`, list("rm rm"), false},
		{"a && b || c; d & e | f", list("a", "b", "c", "d", "e", "f"), false},
		{"(a; { b; })", list("a", "b"), false},
		{"echo $(rm -f keep) `ls`", list("echo $(rm -f keep) `ls`", "rm -f keep", "ls"), false},
		{`echo "x $(rm y)"`, list(`echo "x $(rm y)"`, "rm y"), false},
		{"diff <(sort a) <(sort b)", list("diff <(sort a) <(sort b)", "sort a", "sort b"), false},
		{"cat <<EOF\n$(rm x)\nEOF", list("cat", "rm x"), false},
		{"cat <<'EOF'\n$(rm x)\nEOF", list("cat"), false},
		{"f() { rm x; }; f", list("rm x", "f"), false},
		{"if a; then b; elif c; then d; else e; fi", list("a", "b", "c", "d", "e"), false},
		{"for i in $(ls); do rm x; done", list("ls", "rm x"), false},
		{"while read x; do echo $x; done < f", list("read x", "echo $x"), false},
		{"case $(a) in x) b;; esac", list("a", "b"), false},
		{"! time -p ls", list("ls"), false},
		{"coproc rm x", list("rm x"), false},
		{"X=1 rm x", list("X=1 rm x", "rm x"), false},
		{"x=$(rm y)", list("rm y"), false},
		{"x=1", nil, false},
		{"GIT_EDITOR='rm x'; git commit", list("GIT_EDITOR='rm x'", "git commit"), false},
		{"export A=b", list("export A=b"), false},
		{"cd sub && ls", list("ls"), false},

		{"env rm -f x", list("env rm -f x", "rm -f x"), false},
		{"env -i -u A B=c -- D=e rm x", list("env -i -u A B=c -- D=e rm x", "rm x"), false},
		{"timeout -k 1 --signal=9 5 rm x", list("timeout -k 1 --signal=9 5 rm x", "rm x"), false},
		{"nice -n 5 nohup sudo -u me rm x", list("nice -n 5 nohup sudo -u me rm x", "nohup sudo -u me rm x", "sudo -u me rm x", "rm x"), false},
		{"nice -10 rm x", list("nice -10 rm x", "rm x"), false},
		{"command -p rm x; command -v ls; builtin echo y; exec -a n rm z", list("command -p rm x", "rm x", "command -v ls", "builtin echo y", "echo y", "exec -a n rm z", "rm z"), false},
		{"exec > log", list("exec"), false},
		{"ls | xargs -0 -n 1 rm -f", list("ls", "xargs -0 -n 1 rm -f", "rm -f"), false},
		{"ls | xargs -I{} cp {} y", list("ls", "xargs -I{} cp {} y", "cp {} y"), false},
		{"sh -c 'rm x; ls'", list("sh -c 'rm x; ls'", "rm x", "ls"), false},
		{"bash -exc 'rm x' name arg", list("bash -exc 'rm x' name arg", "rm x"), false},
		{"bash -o pipefail -c 'rm x'", list("bash -o pipefail -c 'rm x'", "rm x"), false},
		{"sh ./x.sh", list("sh ./x.sh"), false},
		{"sh <<< 'rm x'", list("sh", "rm x"), false},
		{"bash <<'E'\nrm x\nE", list("bash", "rm x"), false},
		{`find . -name '*.o' -exec rm {} \; -o -execdir ls {} +`, list(`find . -name '*.o' -exec rm {} \; -o -execdir ls {} +`, "rm {}", "ls {}"), false},
		{"trap 'rm x' EXIT; trap - EXIT", list("trap 'rm x' EXIT", "rm x", "trap - EXIT"), false},
		{"busybox rm x", list("busybox rm x", "rm x"), false},
		{"source ./env.sh", list("source ./env.sh"), false},
		{"for ((i=0; i<3; i++)); do echo $((i*2)); done", list("echo $((i*2))"), false},
		{"for i in 1 2 {3..9}; do ((n += i)); done; [[ $n -gt 3 ]]", nil, false},
		{`echo "${a[@]}" "${!a[@]}" ${#a[@]} $((${#x} + $#))`, list(`echo "${a[@]}" "${!a[@]}" ${#a[@]} $((${#x} + $#))`), false},
		{"printf -v x %s y; printf '%s' z", list("printf -v x %s y", "printf %s z"), false},

		{"coproc cat <<E\nx\nE", nil, true},
		{"X=rm; $X -f keep", list("X=rm", "$X -f keep"), true},
		{"eval 'rm -f keep'", list("eval 'rm -f keep'"), true},
		{"$(echo rm) x", list("$(echo rm) x", "echo rm"), true},
		{"r? x", list("r? x"), true},
		{"{rm,-f,x}", list("{rm,-f,x}"), true},
		{"env {rm,-f,x}", list("env {rm,-f,x}"), true},
		{"env -S 'rm x'", list("env -S 'rm x'"), true},
		{"env $X", list("env $X"), true},
		{"ls | sh", list("ls", "sh"), true},
		{"bash <(ls)", list("bash <(ls)", "ls"), true},
		{`sh -c "$X"`, list(`sh -c "$X"`), true},
		{"source <(ls)", list("source <(ls)", "ls"), true},
		{"ls | . /dev/stdin", list("ls", ". /dev/stdin"), true},
		{"ls | xargs", list("ls", "xargs"), false},
		{"ls | xargs env", list("ls", "xargs env", "env"), true},
		{"ls | xargs sh", list("ls", "xargs sh", "sh"), true},
		{"ls | xargs -I% sh -c 'rm %'", list("ls", "xargs -I% sh -c 'rm %'", "sh -c 'rm %'"), true},
		{"ls | xargs -0I % %", list("ls", "xargs -0I % %"), true},
		{"ls | xargs find .", list("ls", "xargs find .", "find ."), true},
		{`find . -exec {} \;`, list(`find . -exec {} \;`, "{}"), true},
		{`find . -exec sh -c 'rm {}' \;`, list(`find . -exec sh -c 'rm {}' \;`, "sh -c 'rm {}'"), true},
		{`find "$a" rm x \;`, list(`find "$a" rm x \;`), true},
		{"PATH=. ls", list("PATH=. ls", "ls"), true},
		{"alias ls=rm", list("alias ls=rm"), true},
		{"hash -p /bin/rm ls", list("hash -p /bin/rm ls"), true},
		{"mapfile -C 'rm x' -c 1 a", list("mapfile -C 'rm x' -c 1 a"), true},
		{"echo ${x@P}", list("echo ${x@P}"), true},
		{"echo ${!x}", list("echo ${!x}"), true},
		{"x='a[$(rm y)]'; echo $((x))", list("echo $((x))"), true},
		{"read x; ((x))", list("read x"), true},
		{"[[ -v 'a[$(rm x)]' ]]", nil, true},
		{"test -v 'a[$(rm x)]'", list("test -v 'a[$(rm x)]'"), true},
		{"unset 'a[$(rm x)]'", list("unset 'a[$(rm x)]'"), true},
		{"declare -i x='a[$(rm y)]'", list("declare -i x='a[$(rm y)]'"), true},
		{"f() { echo $((x)); }; trap 'x=a; f' EXIT", list("echo $((x))", "trap 'x=a; f' EXIT", "f"), true},
		{"sh -c '((rm -f))'", list("sh -c '((rm -f))'"), true},
		{"rm x; (", nil, true},
		{"echo x > \"$F\"", list("echo x"), true},
		{"cd $X; ls", list("ls"), true},
		{"zsh -c 'rm x'", list("zsh -c 'rm x'"), true},
	}
	for _, tt := range tests {
		got := Commands(tt.script)
		if got.Unreadable != tt.unreadable {
			t.Errorf("%q: unreadable = %v", tt.script, got.Unreadable)
		}
		sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		if diff := cmp.Diff(tt.commands, got.Commands, sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: %s", tt.script, diff)
		}
	}
}

func TestPaths(t *testing.T) {
	list := func(s ...string) []string { return s }
	tests := []struct {
		script        string
		paths, writes []string
	}{
		{"cat /etc/passwd ../x y -n", list("/etc/passwd", "../x", "y"), nil},
		{"cat '/etc/pass wd' \"a\"b", list("/etc/pass wd", "ab"), nil},
		{"echo /etc/x > out 2>&1 2>/dev/null", list("out"), list("out")},
		{"a >> b &> c <> d < e >| f", list("b", "c", "d", "e", "f"), list("b", "c", "d", "f")},
		{"cat ~/x '~/y' $HOME/z \"$HOME/w\"", list("~/x", "./~/y", "~/z"), nil},
		{"cat /etc/*.conf /var/$X", list("/etc/", "/var/"), nil},
		{"cat {/etc/passwd,../y}", list("/etc/passwd", "../y"), nil},
		{"dd if=/dev/sda of=/x --o=../y -I/usr/include", list("if=/dev/sda", "/dev/sda", "of=/x", "/x", "../y", "/usr/include"), nil},
		{"sed -n '/x/,/y/p' /f; grep -e /a /b; awk '/c/' d", list("/f", "/b", "d"), nil},
		{"env cat /x", list("/x"), nil},
		{"sh -c 'cat /x > /y'", list("cat /x > /y", "/y", "/x"), list("/y")},
		{"cd sub && cat ../x > y", list("sub", "../x", "sub/../x", "y", "sub/y"), list("y", "sub/y")},
		{"cd /a; cat b", list("/a", "b", "/a/b"), nil},
		{"cd; ls x", list("~", "x", "~/x"), nil},
		{"echo x > $F", nil, list("$F")},
		{"ls > >(cat)", nil, nil},
		{"find . -fprint out", list(".", "-fprint", "out"), list("out")},
		{"for f in /a b; do cat $f; done", list("/a", "b"), nil},
	}
	for _, tt := range tests {
		got := Commands(tt.script)
		opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b string) bool { return a < b })}
		// A shell's script is a word like any other; nobody has such a file.
		if diff := cmp.Diff(tt.paths, drop(got.Paths, "-fprint"), opts); diff != "" && cmp.Diff(drop(tt.paths, "-fprint"), got.Paths, opts) != "" {
			t.Errorf("%q paths: %s", tt.script, diff)
		}
		if diff := cmp.Diff(tt.writes, got.Writes, opts); diff != "" {
			t.Errorf("%q writes: %s", tt.script, diff)
		}
	}
}

func drop(list []string, s string) []string {
	var out []string
	for _, x := range list {
		if x != s {
			out = append(out, x)
		}
	}
	return out
}

func TestDecideScript(t *testing.T) {
	allowList := rules("deny bash:*", "allow bash:echo *", "allow bash:env *", "allow bash:timeout *", "allow bash:sh *", "allow bash:xargs *", "allow bash:grep *", "allow bash:head *")
	denyList := append(Defaults(), rules("deny bash:rm *")...)
	tests := []struct {
		name   string
		rules  []session.Rule
		script string
		want   session.Action
	}{
		{"substitution", allowList, "echo $(rm -f keep)", session.Deny},
		{"wrapper", allowList, "env rm -f keep", session.Deny},
		{"timeout", allowList, "timeout 5 rm -f keep", session.Deny},
		{"sh -c", allowList, "sh -c 'rm -f keep'", session.Deny},
		{"variable", allowList, "X=rm; $X -f keep", session.Deny},
		{"xargs", allowList, "echo keep | xargs rm -f", session.Deny},
		{"eval", allowList, "eval 'rm -f keep'", session.Deny},
		{"plain", allowList, "echo plain-ok", session.Allow},
		{"all parts allowed", allowList, "grep x f | head -1", session.Allow},
		{"wrapper of an allowed one", allowList, "env echo x", session.Allow},
		{"assignment in front", allowList, "X=1 echo x", session.Deny},
		{"nothing runs", allowList, "x=1", session.Deny},
		{"unreadable is not allowed by its start", rules("deny bash:*", "allow bash:echo *"), "echo $(eval x)", session.Deny},
		{"unreadable is allowed by *", Defaults(), "eval x", session.Allow},
		{"unreadable asks", rules("ask bash:*", "allow bash:eval *"), "eval x", session.Ask},
		{"unreadable without a rule asks", rules("allow bash:eval *"), "eval x", session.Ask},
		{"denied", denyList, "touch ran && rm -f keep", session.Deny},
		{"denied by path", denyList, "/bin/rm -f keep", session.Deny},
		{"denied beside the unreadable", denyList, "true; rm -f keep; eval x", session.Deny},
		{"by path in an allow-list", rules("deny bash:*", "allow bash:./gradlew *"), "./gradlew build", session.Allow},
		{"quotes", denyList, `"r"m -f keep`, session.Deny},
	}
	for _, tt := range tests {
		got := DecideScript(Merge(Layers{User: tt.rules}), Commands(tt.script))
		if got.Action != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestCommandsIsBounded(t *testing.T) {
	for _, s := range []string{
		strings.Repeat("(", 100000), strings.Repeat("$(", 100000), strings.Repeat("`", 100000), strings.Repeat("{ ", 100000),
		strings.Repeat("if a; then ", 20000), strings.Repeat("a|", 100000) + "a", strings.Repeat("! ", 100000), strings.Repeat("time ", 40000),
		strings.Repeat("env ", 60000), strings.Repeat("cd a/;", 40000), strings.Repeat("${a:-", 40000), "$((" + strings.Repeat("-", 200000) + "1))",
		strings.Repeat("a() ", 50000) + "b", strings.Repeat("coproc ", 30000), "[[ " + strings.Repeat("! ", 100000) + "a ]]",
		"x=$((" + strings.Repeat("1+", 100000) + "1))", strings.Repeat("a&&", 80000) + "a", strings.Repeat("while a; do ", 20000),
		strings.Repeat("case a in b) ", 18000), strings.Repeat("function a ", 20000) + "b",
	} {
		Commands(s)
		Commands(s[:min(len(s), maxScript)]) // the longest that is parsed
	}
}
