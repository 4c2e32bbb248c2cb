-- A session file of schema 1: a session with a turn that was being served, and a child.
PRAGMA application_id = 1918987372;
PRAGMA user_version = 1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE counter (
  id  INTEGER PRIMARY KEY CHECK (id = 1),
  rev INTEGER NOT NULL
) STRICT;
INSERT INTO counter VALUES(1,17);
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
INSERT INTO session VALUES(1,'ses_one','','fix the test','/w','build','mock','m','high','[{"permission":"bash","pattern":"git *","action":"allow"}]',NULL,'[]','{"type":"busy"}','test',1700000000000,1002,3,12,0);
INSERT INTO session VALUES(2,'ses_child','ses_one','c','/w','explore','','','','[]','{"messageID":"msg_c","snapshot":"abc"}','[{"content":"a","status":"pending","priority":"low"}]','{"type":"idle"}','test',1004,1008,1,17,0);
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
INSERT INTO message VALUES(1,'ses_one','msg_1',1,1,'user','','trn_000000001',1700000000001,0,2,NULL,0,0,0,0,0,0,'{"id":"msg_1","sessionID":"ses_one","role":"user","turnID":"trn_000000001","time":{"created":1700000000001},"agent":"build","model":{"providerID":"mock","modelID":"m","variant":"high"}}');
INSERT INTO message VALUES(2,'ses_one','msg_2',1,2,'assistant','msg_1','trn_000000001',1700000000002,1700000000009,4,1234567890,10,20,5,3,4,42,'{"id":"msg_2","sessionID":"ses_one","role":"assistant","turnID":"trn_000000001","time":{"created":1700000000002,"completed":1700000000009},"agent":"build","parentID":"msg_1","mode":"build","modelID":"m","providerID":"mock","variant":"high","path":{"cwd":"/w","root":"/w"},"cost":0.00123456789,"tokens":{"input":10,"output":20,"reasoning":5,"cache":{"read":3,"write":4}},"finish":"tool-calls"}');
INSERT INTO message VALUES(3,'ses_one','msg_3',1,3,'assistant','msg_1','trn_000000001',1700000000010,0,9,NULL,0,0,0,0,0,0,'{"id":"msg_3","sessionID":"ses_one","role":"assistant","turnID":"trn_000000001","time":{"created":1700000000010},"agent":"build","parentID":"msg_1","mode":"build","modelID":"m","providerID":"mock","variant":"high","path":{"cwd":"/w","root":"/w"},"cost":null,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}');
INSERT INTO message VALUES(4,'ses_child','msg_c',1,1,'user','','trn_000000002',5,0,14,NULL,0,0,0,0,0,0,'{"id":"msg_c","sessionID":"ses_child","role":"user","turnID":"trn_000000002","time":{"created":5},"agent":"build","model":{"providerID":"","modelID":""}}');
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
INSERT INTO part VALUES(1,'prt_msg_1','ses_one','msg_1',1,'text',3,'{"type":"text","id":"prt_msg_1","sessionID":"ses_one","messageID":"msg_1","text":"fix the test"}');
INSERT INTO part VALUES(2,'prt_21','ses_one','msg_2',1,'step-start',5,'{"type":"step-start","id":"prt_21","sessionID":"ses_one","messageID":"msg_2"}');
INSERT INTO part VALUES(3,'prt_22','ses_one','msg_2',2,'reasoning',6,'{"type":"reasoning","id":"prt_22","sessionID":"ses_one","messageID":"msg_2","text":"hm","time":{"start":1,"end":2}}');
INSERT INTO part VALUES(4,'prt_23','ses_one','msg_2',3,'tool',7,'{"type":"tool","id":"prt_23","sessionID":"ses_one","messageID":"msg_2","callID":"call_1","tool":"bash","state":{"status":"completed","input":{"command":"make"},"output":"it''s ok\n","title":"make","metadata":{},"time":{"start":1,"end":2}}}');
INSERT INTO part VALUES(5,'prt_24','ses_one','msg_2',4,'step-finish',8,'{"type":"step-finish","id":"prt_24","sessionID":"ses_one","messageID":"msg_2","reason":"tool-calls","cost":0.00123456789,"tokens":{"input":10,"output":20,"reasoning":5,"cache":{"read":3,"write":4}}}');
INSERT INTO part VALUES(6,'prt_31','ses_one','msg_3',1,'text',12,'{"type":"text","id":"prt_31","sessionID":"ses_one","messageID":"msg_3","text":"","time":{"start":3}}');
INSERT INTO part VALUES(7,'prt_msg_c','ses_child','msg_c',1,'text',15,'{"type":"text","id":"prt_msg_c","sessionID":"ses_child","messageID":"msg_c","text":"say msg_c"}');
CREATE TABLE chunk (
  part_key INTEGER NOT NULL REFERENCES part (key) ON DELETE CASCADE,
  n        INTEGER NOT NULL,
  text     TEXT    NOT NULL,
  PRIMARY KEY (part_key, n)
) STRICT, WITHOUT ROWID;
INSERT INTO chunk VALUES(6,1,'It ');
INSERT INTO chunk VALUES(6,2,'works');
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
INSERT INTO turn VALUES(1,'trn_000000001','ses_one','msg_1','open','',0,NULL,4711,'host',1,0,0,1003,0);
INSERT INTO turn VALUES(2,'trn_000000002','ses_child','msg_c','closed','provider_error',1,'{"name":"APIError","data":{"message":"boom"}}',7,'h',0,0,0,0,1007);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('turn',2);
CREATE INDEX session_parent ON session (parent_id, rev);
CREATE INDEX session_directory ON session (directory, rev);
CREATE INDEX session_rev ON session (rev);
CREATE INDEX message_rev ON message (session_id, rev);
CREATE INDEX message_turn ON message (session_id, turn_id);
CREATE INDEX part_rev ON part (session_id, rev);
CREATE INDEX turn_message ON turn (session_id, message_id, n);
CREATE INDEX turn_alive ON turn (session_id, n) WHERE state <> 'closed';
COMMIT;
