// `npm run build:dashboard`: the pages of the admin port, from packages/dashboard to packages/gateway/pages.
import { buildDashboard } from "./dashboard-pages.ts";

await buildDashboard();
