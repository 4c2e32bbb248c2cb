// Package batch runs many tasks from one file, some at a time, and keeps what
// became of them in another.
//
// It promises: the result file is the only state, so a batch that died is
// started again and goes on; a row is appended whole and synced before the
// next task of its worker begins; what is completed is not run again; one
// task's trouble, a broken line included, is that task's row and nobody else's.
//
// It knows nothing of sessions and models. A task is run by a function that
// the caller gives, which returns the row; of a row the package reads what it
// must know to skip, count and report. It will not run tasks of a line twice at
// once, and it coordinates nothing between machines: a shard is a share of the
// ids by their hash.
package batch
