// `npm run check`: import law, formatting and lint, types, unused code. All at once, all failures shown.
import { run, summarize } from "./checks.ts";

const results = await run();
process.stdout.write(summarize(results));
process.exitCode = results.every((result) => result.code === 0) ? 0 : 1;
