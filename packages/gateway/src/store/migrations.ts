/**
 * The shape of the store, as the steps that lead to it. A step that was released is never changed: a store in the field
 * has run it already. The file's `user_version` says how many it has run.
 */

/** SQL of each step, in order. */
export const MIGRATIONS: readonly string[] = [
  // 1: what is learned from traffic, and what prices were
  `
  CREATE TABLE learned (
    account TEXT NOT NULL,
    node TEXT NOT NULL,
    url TEXT NOT NULL,
    -- '' where the number belongs to the node; for numbers of a model on all nodes, node and url are ''
    model TEXT NOT NULL,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    samples REAL NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (account, node, url, model, name)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE prices (
    key TEXT NOT NULL,
    observed_at_ms INTEGER NOT NULL,
    fetched_at_ms INTEGER NOT NULL,
    usd_per_gpu_hour REAL NOT NULL,
    PRIMARY KEY (key, observed_at_ms)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX prices_by_age ON prices (observed_at_ms);
  `,
  // 2: of what the numbers are, so that those of other hardware or of another account are not believed. '' is unknown
  `
  ALTER TABLE learned ADD COLUMN family TEXT NOT NULL DEFAULT '';
  CREATE INDEX learned_by_age ON learned (updated_at_ms);
  ALTER TABLE prices ADD COLUMN source TEXT NOT NULL DEFAULT '';
  `,
  // 3: what the admin API made, and who changed what
  `
  CREATE TABLE objects (
    kind TEXT NOT NULL,
    -- '' for kinds that belong to no account
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, account, name)
  ) STRICT, WITHOUT ROWID;

  -- an accepted value of a key that the gateway made; the value itself is nowhere
  CREATE TABLE key_digests (
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    -- NULL: as long as the key itself
    expires_at_ms INTEGER,
    PRIMARY KEY (account, name, digest)
  ) STRICT, WITHOUT ROWID;

  -- nodes that take no new requests, whoever declared them
  CREATE TABLE drains (
    account TEXT NOT NULL,
    node TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (account, node)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    actor_account TEXT NOT NULL,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    before TEXT,
    after TEXT
  ) STRICT;
  CREATE INDEX audit_by_age ON audit (at_ms);
  CREATE INDEX audit_by_account ON audit (account, id);

  -- number of the last change of the objects
  CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  INSERT INTO counters VALUES ('objects', 0);
  `,
  // 4: which version of the configuration a change became, and what the key file next to the store has to be
  `
  ALTER TABLE audit ADD COLUMN revision INTEGER;
  ALTER TABLE audit ADD COLUMN version INTEGER;
  CREATE INDEX audit_by_revision ON audit (revision) WHERE revision IS NOT NULL;
  CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  `,
  // 5: what keys and accounts spent
  `
  CREATE TABLE spend (
    account TEXT NOT NULL,
    -- '' for the account as a whole
    key TEXT NOT NULL,
    -- a day or a month of the calendar, UTC: 2027-01-31, 2027-01
    period TEXT NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (period, account, key)
  ) STRICT, WITHOUT ROWID;
  `,
  // 6: what predictions are made with, of each model on each family
  `
  CREATE TABLE timings (
    account TEXT NOT NULL,
    model TEXT NOT NULL,
    family TEXT NOT NULL,
    -- JSON
    state TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (account, model, family)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX timings_by_age ON timings (updated_at_ms);
  `,
];
