// Package snapshot stores states of a work directory in a git repository of
// its own, outside the project, so that what a turn did can be listed and
// taken back. The project need not be a git repository; its own repository is
// only read.
//
// # Promises
//
// Trouble never fails or blocks a turn: every operation has a time guard, and
// a Tree that cannot work is off for the rest of its life, with a reason that
// is told once. Nothing is taken back unless all of it can be: every tree and
// every file's content is read before the first write. Only named files
// below the work directory are written, a file is deleted only where the tree
// is there and does not hold it, and no link is followed on the way.
//
// # What a tree holds
//
// Regular files and links below the work directory that the project does not
// ignore, nested repositories and submodules included, with the bit that makes
// them executable. Not in it: what is ignored and not tracked by the project,
// untracked files over 2 MiB (one that grows beyond it stays in), files that
// cannot be read, names that are not UTF-8, empty directories, rally's own
// files. Contents are kept as they are on disk, whatever .gitattributes say.
//
// # For the caller
//
// Laziness is the caller's: a step that changes nothing must not call this
// package, and then costs no process. Open starts none either. A step that may
// change files calls Track before its first change and Patch after its last.
//
// To take turns back so that a kill at any point can be undone:
//
//  1. files := all files of the patches to take back
//  2. baseline := Track(ctx, files...)
//  3. store the intent (session.Revert with the baseline) and make it durable
//  4. Revert(ctx, baseline, patches)
//
// A kill before 3 has changed nothing. A kill after it leaves some files taken
// back: Revert again finishes it, Restore(ctx, baseline, files) undoes it, and
// both may be repeated. To move the boundary of a session that has been
// reverted already, Restore its stored baseline first and keep that baseline
// stored: it is the older truth. Restore's files are then those of both
// boundaries.
//
// # Layout
//
// DIR/KEY.lock is the lock between processes and never removed; DIR/KEY/ is a
// bare repository with refs/rally/TREE for each tree, whose file's time says
// when the tree was last wanted; KEY is made from the path of the work
// directory. Git never collects garbage there by itself: Prune does.
package snapshot
