/** The frame: navigation, what is wrong, and the page. */

import { useEffect, useRef, useState } from "preact/hooks";
import { hasKey, setKey } from "./api.ts";
import { type Following, isTenant, useLive } from "./live.ts";
import { AccountPage, OperatorsPage } from "./pages/account.tsx";
import { AdmissionPage } from "./pages/admission.tsx";
import { AvailabilityPage } from "./pages/availability.tsx";
import { BackTestPage } from "./pages/back-test.tsx";
import { CostPage } from "./pages/cost.tsx";
import { DecisionsPage } from "./pages/decisions.tsx";
import { DispatchPage } from "./pages/dispatch.tsx";
import { FailoverPage } from "./pages/failover.tsx";
import { LoginPage } from "./pages/login.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PoliciesPage } from "./pages/policies.tsx";
import { WhatIfPage } from "./pages/what-if.tsx";
import { Banners, Contact } from "./parts/contact.tsx";
import { SafePage } from "./parts/safe-page.tsx";
import { ThemeButton } from "./parts/theme-button.tsx";
import { type Route, useRoute } from "./route.ts";

interface PageName {
  readonly page: string;
  readonly title: string;
  /** Of the five. */
  readonly step?: number;
}

interface PageGroup {
  readonly title: string;
  readonly pages: readonly PageName[];
}

const WHY: PageGroup = {
  title: "Why",
  pages: [
    { page: "decisions", title: "Decisions" },
    { page: "what-if", title: "What if" },
    { page: "back-test", title: "Back-test" },
  ],
};
const CONFIGURATION: PageGroup = { title: "Configuration", pages: [{ page: "policies", title: "Policies" }] };

const GROUPS: readonly PageGroup[] = [
  { title: "Fleet", pages: [{ page: "overview", title: "Overview" }] },
  {
    title: "Steps of a request",
    pages: [
      { page: "admission", title: "Admission", step: 1 },
      { page: "availability", title: "Availability", step: 2 },
      { page: "cost", title: "Cost", step: 3 },
      { page: "dispatch", title: "Dispatch", step: 4 },
      { page: "failover", title: "Failover", step: 5 },
    ],
  },
  WHY,
  CONFIGURATION,
];

/** Of a key whose account is not the operators'. */
const TENANT_GROUPS: readonly PageGroup[] = [
  { title: "Account", pages: [{ page: "account", title: "Your account" }] },
  WHY,
  CONFIGURATION,
];

export function App() {
  const route = useRoute();
  const [login, setLogin] = useState(0);
  const following = useLive(login);
  const { error, now, who } = following;
  const groups = isTenant(who) ? TENANT_GROUPS : GROUPS;
  // everybody's first page
  const shown = isTenant(who) && route.page === "overview" ? "account" : route.page;
  const title = titleIn(groups, shown);
  /** Of a page that there is, and not for this key. */
  const hiddenTitle = title === undefined ? titleIn(GROUPS, shown) : undefined;
  useEffect(() => {
    document.title = title === undefined ? "ZML" : `${title} · ZML`;
  }, [title]);
  if (error?.kind === "refused" && (error.status === 401 || error.status === 403)) {
    const wasIn = now !== null || who !== null;
    return (
      <LoginPage
        refusal={hasKey() ? (wasIn ? `Logged out: ${error.message}` : error.message) : null}
        onKey={(key) => {
          setKey(key);
          setLogin(login + 1);
        }}
      />
    );
  }
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the page
      </button>
      <header class="side">
        <span class="name">ZML</span>
        <Navigation groups={groups} page={shown} />
        <Tools following={following} />
      </header>
      <div>
        <Banners following={following} />
        <main id="main" tabIndex={-1} key={login}>
          <SafePage of={`${shown}/${route.rest}`}>
            {isTenant(who) && hiddenTitle !== undefined ? (
              <OperatorsPage title={hiddenTitle} who={who} />
            ) : (
              <Page route={{ ...route, page: shown }} following={following} />
            )}
          </SafePage>
        </main>
      </div>
    </div>
  );
}

function titleIn(groups: readonly PageGroup[], shown: string): string | undefined {
  return groups.flatMap(({ pages }) => pages).find(({ page }) => page === shown)?.title;
}

function Navigation({ groups, page: shown }: { groups: readonly PageGroup[]; page: string }) {
  const current = useRef<HTMLAnchorElement>(null);
  // on a phone the list is wider than the screen
  useEffect(() => current.current?.scrollIntoView({ block: "nearest", inline: "center" }), [shown]);
  return (
    <nav aria-label="Pages">
      {groups.map(({ title, pages }) => (
        <div key={title}>
          <p class="group">{title}</p>
          <ul aria-label={title}>
            {pages.map(({ page, title: name, step }) => (
              <li key={page}>
                <a
                  href={`#/${page}`}
                  aria-current={shown === page ? "page" : undefined}
                  ref={shown === page ? current : null}
                >
                  {step !== undefined && (
                    <span class="step" aria-hidden="true">
                      {step}
                    </span>
                  )}
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Tools({ following }: { following: Following }) {
  const { now, who } = following;
  return (
    <div class="tools">
      <Contact following={following} />
      {now !== null && <span class="detail">configuration {now.version}</span>}
      {who !== null && hasKey() && (
        <span class="detail">
          {who.is_operator ? who.name : `${who.name} of ${who.account}`}
          {who.may_write ? "" : ", reads only"}
        </span>
      )}
      <ThemeButton />
      {hasKey() && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            setKey(null);
            location.reload();
          }}
        >
          Log out
        </button>
      )}
    </div>
  );
}

function Page({ route, following }: { route: Route; following: Following }) {
  switch (route.page) {
    case "account":
      return isTenant(following.who) ? <AccountPage who={following.who} /> : <OverviewPage following={following} />;
    case "overview":
      return <OverviewPage following={following} />;
    case "admission":
      return <AdmissionPage following={following} />;
    case "availability":
      return <AvailabilityPage following={following} find={route.query.get("find") ?? ""} />;
    case "cost":
      return <CostPage following={following} />;
    case "dispatch":
      return <DispatchPage following={following} />;
    case "failover":
      return <FailoverPage following={following} />;
    case "decisions":
      return <DecisionsPage id={route.rest} query={route.query} />;
    case "what-if":
      return <WhatIfPage following={following} />;
    case "back-test":
      return <BackTestPage id={route.rest} following={following} />;
    case "policies":
      return <PoliciesPage name={route.rest} following={following} />;
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
