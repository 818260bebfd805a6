/** The frame: navigation, what is wrong, and the page. */

import { useState } from "preact/hooks";
import { hasKey, setKey } from "./api.ts";
import { type Following, useLive } from "./live.ts";
import { AdmissionPage } from "./pages/admission.tsx";
import { AvailabilityPage } from "./pages/availability.tsx";
import { CostPage } from "./pages/cost.tsx";
import { DecisionsPage } from "./pages/decisions.tsx";
import { DispatchPage } from "./pages/dispatch.tsx";
import { FailoverPage } from "./pages/failover.tsx";
import { LoginPage } from "./pages/login.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PoliciesPage } from "./pages/policies.tsx";
import { WhatIfPage } from "./pages/what-if.tsx";
import { ThemeButton } from "./parts/theme-button.tsx";
import { type Route, useRoute } from "./route.ts";

const PAGES: readonly (readonly [string, string])[] = [
  ["overview", "Overview"],
  ["admission", "Admission"],
  ["availability", "Availability"],
  ["cost", "Cost"],
  ["dispatch", "Dispatch"],
  ["failover", "Failover"],
  ["decisions", "Decisions"],
  ["what-if", "What if"],
  ["policies", "Policies"],
];

export function App() {
  const route = useRoute();
  const [login, setLogin] = useState(0);
  const following = useLive(login);
  if (following.error?.status === 401 || following.error?.status === 403) {
    return (
      <LoginPage
        refusal={hasKey() ? following.error.message : null}
        onKey={(key) => {
          setKey(key);
          setLogin(login + 1);
        }}
      />
    );
  }
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header>
        <span class="name">ZML</span>
        <nav aria-label="Pages">
          {PAGES.map(([page, title]) => (
            <a key={page} href={`#/${page}`} aria-current={route.page === page ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="tools">
          {following.now !== null && <span class="version">configuration {following.now.version}</span>}
          <ThemeButton />
          {hasKey() && (
            <button
              type="button"
              onClick={() => {
                setKey(null);
                location.reload();
              }}
            >
              Log out
            </button>
          )}
        </span>
      </header>
      {following.error !== null && (
        <p class="alarm" role="alert">
          {following.error.message} What is shown is of {following.now === null ? "no time yet" : "before"}.
        </p>
      )}
      <main id="main" key={login}>
        <Page route={route} following={following} />
      </main>
    </div>
  );
}

function Page({ route, following }: { route: Route; following: Following }) {
  switch (route.page) {
    case "overview":
      return <OverviewPage following={following} />;
    case "admission":
      return <AdmissionPage following={following} />;
    case "availability":
      return <AvailabilityPage following={following} />;
    case "cost":
      return <CostPage following={following} />;
    case "dispatch":
      return <DispatchPage following={following} />;
    case "failover":
      return <FailoverPage following={following} />;
    case "decisions":
      return <DecisionsPage id={route.rest} />;
    case "what-if":
      return <WhatIfPage following={following} />;
    case "policies":
      return <PoliciesPage name={route.rest} />;
    default:
      return (
        <section>
          <h1>There is no such page</h1>
          <p>
            <a href="#/overview">Go to the overview</a>
          </p>
        </section>
      );
  }
}
