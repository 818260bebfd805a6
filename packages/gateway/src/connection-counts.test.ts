import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  blockOf,
  ConnectionCounts,
  type ConnectionPlace,
  createConnectionCounts,
  forgetConnections,
} from "./connection-counts.ts";

const NONE = { maxConnections: 1e6, maxPerAddress: 1e6 };

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 48_271) & 0x7fffffff) >>> 0;
    return state / 2 ** 31;
  };
}

test("an address counts as what one caller has: IPv4 whole, IPv6 its first 64 bits", () => {
  const same = [
    ["10.0.0.1", "10.0.0.1"],
    ["::ffff:10.0.0.1", "10.0.0.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:0db8:1:2::1", "2001:db8:1:2"],
    ["2001:db8::1", "2001:db8:0:0"],
    ["2001:db8:1:2:3::10.0.0.1", "2001:db8:1:2"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["::1", "0:0:0:0"],
  ] as const;
  for (const [address, block] of same) assert.equal(blockOf(address), block, address);
});

test("a worker that died has nothing open, and the others keep theirs", () => {
  const buffer = createConnectionCounts(2, seeded(1));
  const [first, second] = [new ConnectionCounts(buffer, 0), new ConnectionCounts(buffer, 1)];
  const limits = { maxConnections: 3, maxPerAddress: 2 };
  for (const counts of [first, second]) assert.equal(typeof counts.take("10.0.0.1", limits), "object");
  assert.equal(second.take("10.0.0.1", limits), "address");
  forgetConnections(buffer, 0);
  assert.equal(second.total, 1);
  assert.equal(typeof second.take("10.0.0.1", limits), "object");
  assert.equal(second.take("10.0.0.1", limits), "address");
});

test("whatever opens and closes, no limit is passed, one below it is let in, and all ends at 0", () => {
  const step = fc.record({
    worker: fc.nat({ max: 2 }),
    address: fc.integer({ min: 1, max: 4 }).map((last) => `10.0.0.${last}`),
    closes: fc.boolean(),
  });
  const limits = { maxConnections: 8, maxPerAddress: 3 };
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), fc.integer({ min: 1, max: 2 ** 30 }), (steps, seed) => {
      const buffer = createConnectionCounts(3, seeded(seed));
      const workers = [0, 1, 2].map((worker) => new ConnectionCounts(buffer, worker));
      const open: { address: string; place: ConnectionPlace }[] = [];
      for (const { worker, address, closes } of steps) {
        if (closes) {
          const { place } = open.shift() ?? {};
          place?.release();
          place?.release();
          continue;
        }
        const ofAddress = open.filter((each) => each.address === address).length;
        const place = (workers[worker] as ConnectionCounts).take(address, limits);
        if (open.length >= limits.maxConnections) assert.equal(place, "total");
        else if (ofAddress >= limits.maxPerAddress) assert.equal(place, "address");
        else {
          assert.equal(typeof place, "object");
          open.push({ address, place: place as ConnectionPlace });
        }
      }
      for (const { place } of open) place.release();
      assert.equal(workers[0]?.total, 0);
    }),
  );
});

test("with ten full addresses no other one of 20,000 is refused", () => {
  const counts = new ConnectionCounts(createConnectionCounts(1, seeded(7)), 0);
  const limits = { ...NONE, maxPerAddress: 50 };
  for (let full = 0; full < 10; full++) {
    for (let times = 0; times < 50; times++) counts.take(`192.0.2.${full}`, limits);
  }
  let refused = 0;
  for (let other = 0; other < 20_000; other++) {
    const place = counts.take(`10.${other >> 16}.${(other >> 8) & 255}.${other & 255}`, limits);
    if (typeof place === "string") refused += 1;
    else place.release();
  }
  assert.ok(refused <= 1, `${refused} are refused`);
});
