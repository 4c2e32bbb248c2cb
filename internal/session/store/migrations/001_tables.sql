-- One row that every write of a message or part counts up. A reader that
-- remembers a value asks for rows with a higher rev.
CREATE TABLE counter (
  id  INTEGER PRIMARY KEY CHECK (id = 1),
  rev INTEGER NOT NULL
) STRICT;
INSERT INTO counter (id, rev) VALUES (1, 0);

-- parent_id is no foreign key: a child may be imported before its parent.
CREATE TABLE session (
  key       INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  parent_id TEXT    NOT NULL,
  title     TEXT    NOT NULL,
  directory TEXT    NOT NULL,
  agent     TEXT    NOT NULL,
  provider  TEXT    NOT NULL,
  model     TEXT    NOT NULL,
  variant   TEXT    NOT NULL,
  rules     TEXT    NOT NULL,            -- JSON
  revert    TEXT,                        -- JSON; NULL: nothing is taken back
  todos     TEXT    NOT NULL,            -- JSON
  status    TEXT    NOT NULL,            -- JSON
  version   TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  seq       INTEGER NOT NULL DEFAULT 0,  -- of the newest message ever
  rev       INTEGER NOT NULL DEFAULT 0,  -- of the newest activity
  purged    INTEGER NOT NULL DEFAULT 0   -- rev of the newest deletion
) STRICT;
CREATE INDEX session_parent ON session (parent_id, rev);
CREATE INDEX session_directory ON session (directory, rev);
CREATE INDEX session_rev ON session (rev);

-- The sums of a session are computed from the numbers here, not from data,
-- where the cost is a decimal fraction.
CREATE TABLE message (
  key         INTEGER PRIMARY KEY,
  session_id  TEXT    NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  id          TEXT    NOT NULL,
  place       INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  role        TEXT    NOT NULL,
  parent_id   TEXT    NOT NULL,
  turn_id     TEXT    NOT NULL,
  created     INTEGER NOT NULL,
  completed   INTEGER NOT NULL,          -- 0 while open
  rev         INTEGER NOT NULL,
  cost        INTEGER,                   -- 1e-12 USD; NULL: unknown
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  reasoning   INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  total       INTEGER NOT NULL,
  data        TEXT    NOT NULL,          -- JSON, `info` of an export
  UNIQUE (session_id, id),
  UNIQUE (session_id, place, seq)
) STRICT;
CREATE INDEX message_rev ON message (session_id, rev);
CREATE INDEX message_turn ON message (session_id, turn_id);

CREATE TABLE part (
  key        INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  session_id TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  position   INTEGER NOT NULL,
  type       TEXT    NOT NULL,
  rev        INTEGER NOT NULL,
  data       TEXT    NOT NULL,           -- JSON
  UNIQUE (session_id, message_id, position),
  FOREIGN KEY (session_id, message_id) REFERENCES message (session_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX part_rev ON part (session_id, rev);

-- What an open text or reasoning part gained since its row was written. The
-- text of a part is the text in its data, then its chunks in order of n.
CREATE TABLE chunk (
  part_key INTEGER NOT NULL REFERENCES part (key) ON DELETE CASCADE,
  n        INTEGER NOT NULL,
  text     TEXT    NOT NULL,
  PRIMARY KEY (part_key, n)
) STRICT, WITHOUT ROWID;

-- The queue. AUTOINCREMENT: a number is never used twice, so a later turn has
-- the greater one even when turns between were deleted.
CREATE TABLE turn (
  n               INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT    NOT NULL UNIQUE,
  session_id      TEXT    NOT NULL REFERENCES session (id) ON DELETE CASCADE,
  message_id      TEXT    NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('pending', 'open', 'closed')),
  reason          TEXT    NOT NULL DEFAULT '',
  exit_code       INTEGER NOT NULL DEFAULT 0,
  error           TEXT,                  -- JSON
  owner_pid       INTEGER NOT NULL,
  owner_host      TEXT    NOT NULL,
  steps           INTEGER NOT NULL DEFAULT 0,
  abort_requested INTEGER NOT NULL DEFAULT 0,
  supersede       INTEGER NOT NULL,
  opened          INTEGER NOT NULL DEFAULT 0,
  closed          INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (session_id, message_id) REFERENCES message (session_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX turn_message ON turn (session_id, message_id, n);
CREATE INDEX turn_alive ON turn (session_id, n) WHERE state <> 'closed';
