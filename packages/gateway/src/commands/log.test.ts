import assert from "node:assert/strict";
import { test } from "node:test";
import { type LogStream, ProcessLog } from "./log.ts";

/** A reader that takes what it is told to. */
class Reader implements LogStream {
  readonly lines: string[] = [];
  writableLength = 0;
  destroyed = false;
  isTTY = false;
  isStuck = false;
  #waiting: (() => void)[] = [];

  /** Takes what waited. */
  read(): void {
    this.isStuck = false;
    this.writableLength = 0;
    for (const onWritten of this.#waiting.splice(0)) onWritten();
  }

  write(text: string, onWritten?: () => void): void {
    if (this.isStuck) {
      this.writableLength += text.length;
      if (onWritten !== undefined) this.#waiting.push(onWritten);
    } else {
      this.lines.push(...text.split("\n").filter((line) => line !== ""));
      onWritten?.();
    }
  }

  parsed(): Record<string, unknown>[] {
    return this.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }
}

const SETTINGS = { level: null, repeats: 3, bufferBytes: 4096 };

function start({ secrets = [] as string[], level = "info" as const, isTTY = false } = {}) {
  const reader = new Reader();
  reader.isTTY = isTTY;
  const log = new ProcessLog({ stream: reader, level, format: "auto" });
  log.configure(SETTINGS, secrets);
  return { reader, log };
}

test("lines are JSON with words for level and time where nobody looks, and text at a terminal", () => {
  const { reader, log } = start();
  log.info({ interrupted: 0 }, "drained");
  const [line] = reader.parsed();
  assert.equal(line?.["level"], "info");
  assert.equal(line?.["msg"], "drained");
  assert.equal(line?.["interrupted"], 0);
  assert.ok(!Number.isNaN(Date.parse(String(line?.["time"]))));
  const terminal = start({ isTTY: true });
  terminal.log.warn({ node: "a", error: "no\u001b[31m way" }, "a node is out");
  assert.match(
    terminal.reader.lines[0] ?? "",
    /^\d\d:\d\d:\d\d\.\d{3} WARN {2}a node is out node=a error="no\\u001b\[31m way"$/,
  );
});

test("a level holds from the moment it is set, and its change is told by the level that writes more", () => {
  const { reader, log } = start();
  log.debug({}, "one");
  log.setLevel("debug");
  log.debug({}, "two");
  log.setLevel("silent");
  log.error({}, "three");
  log.setLevel("error");
  log.warn({}, "four");
  log.error({}, "five");
  assert.deepEqual(
    reader.parsed().map(({ msg, to }) => to ?? msg),
    ["debug", "two", "silent", "five"],
  );
});

test("lines that repeat are written a few times and then counted, each text for itself", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { reader, log } = start();
  for (let count = 0; count < 1000; count++) log.warn({ count }, "a node is out");
  log.warn({}, "another thing");
  assert.equal(reader.lines.length, 4);
  assert.equal(log.leftOut.repeated, 997);
  t.mock.timers.tick(10_000);
  const told = reader.parsed().at(-1);
  assert.deepEqual(
    [told?.["msg"], told?.["text"], told?.["lines"], told?.["level"]],
    ["lines that repeat were left out", "a node is out", 997, "warn"],
  );
  log.warn({}, "a node is out");
  assert.equal(reader.lines.length, 6);
});

test("ten thousand texts in a window are no more memory than five hundred, and none of them is lost uncounted", () => {
  const { reader, log } = start();
  for (let count = 0; count < 10_000; count++) log.info({}, `text ${count}`);
  assert.equal(reader.lines.length + log.leftOut.repeated, 10_000);
  assert.equal(reader.lines.length, 512 + 3);
});

test("while nobody reads, lines are kept up to the bound, then left out, and that is told once somebody does", () => {
  const { reader, log } = start();
  log.configure({ ...SETTINGS, repeats: 1_000_000 }, []);
  reader.isStuck = true;
  for (let count = 0; count < 5000; count++) log.info({ count }, "a line");
  assert.ok(reader.writableLength <= SETTINGS.bufferBytes, String(reader.writableLength));
  assert.ok(log.leftOut.unread > 4000);
  reader.isStuck = false;
  reader.writableLength = 0;
  log.info({}, "the next");
  assert.deepEqual(
    reader.parsed().map(({ msg }) => msg),
    ["lines were left out: nobody read the log", "the next"],
  );
  assert.equal(reader.parsed()[0]?.["lines"], log.leftOut.unread);
});

test("what was left out is told once what waited was read, also where no line comes after it", () => {
  const { reader, log } = start();
  log.configure({ ...SETTINGS, repeats: 1_000_000 }, []);
  reader.isStuck = true;
  for (let count = 0; count < 500; count++) log.info({ count }, "a line");
  reader.read();
  assert.deepEqual(
    reader.parsed().map(({ msg, lines }) => [msg, lines]),
    [["lines were left out: nobody read the log", log.leftOut.unread]],
  );
});

test("a reader that has gone, and one that never reads again, cost nothing at the end", async () => {
  const { reader, log } = start();
  reader.destroyed = true;
  log.error({}, "nobody hears it");
  await log.flush(60_000);
  const stuck = start();
  stuck.reader.isStuck = true;
  stuck.log.info({}, "a line");
  const startMs = performance.now();
  await stuck.log.flush(20);
  assert.ok(performance.now() - startMs < 5_000);
});

test("no secret is in a line: by name, by value, in a text, nested, or from a stack", () => {
  const secret = 's3cret"with\\things';
  const { reader, log } = start({ secrets: [secret] });
  log.error({ error: new Error(`refused ${secret}`).stack, api_key: "other", deep: { token: "x" } }, `no: ${secret}`);
  log.info({ [secret]: 1 }, "as a name");
  const text = reader.lines.join("\n");
  assert.ok(!text.includes(secret) && !text.includes(JSON.stringify(secret).slice(1, -1)), text);
  assert.doesNotMatch(text, /"api_key":"other"/);
});
