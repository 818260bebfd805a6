// `npm run test:field [-- --long] [-- --flag…]`: the tests whose titles carry the id of a field case, wherever they stand.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { filesOfCases } from "../packages/gateway/test/field/field-map.ts";

const LONG_FLAG = "--long";
/** Forms that take minutes: the longest waits for limits of a quarter of an hour. */
const LONG_TEST_MS = 25 * 60_000;

const args = process.argv.slice(2);
const isLong = args.includes(LONG_FLAG);
const { status } = spawnSync(
  process.execPath,
  [
    join(import.meta.dirname, "test.ts"),
    "--test-name-pattern=/(^|\\s)[A-M]\\d\\d(, [A-M]\\d\\d)*: /",
    ...(isLong ? [`--test-timeout=${LONG_TEST_MS}`] : []),
    ...args.filter((arg) => arg !== LONG_FLAG),
    ...filesOfCases(),
  ],
  { stdio: "inherit", env: { ...process.env, ZML_FIELD_LONG: isLong ? "1" : "0" } },
);
process.exitCode = status ?? 1;
