import { Card } from "../parts/card.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { MoneyTable } from "../parts/money-table.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { ManagedObject, Whoami } from "../types.ts";
import { count } from "../words.ts";

const EVERY_MS = 10_000;
/** Rows of a table; what is beyond is counted. */
const ROWS = 100;

interface ObjectPage {
  readonly items: readonly ManagedObject[];
  readonly next_cursor: string | null;
}

/** What the key of an account sees, in one look: its money, models and keys. */
export function AccountPage({ who }: { who: Whoami }) {
  return (
    <section>
      <PageHead title="Your account">
        <TenantNote who={who} />
      </PageHead>
      <MoneyTable isTenant />
      <div class="columns">
        <Objects
          title="Models"
          collection="models"
          empty="None is registered by this account. What its nodes serve can be asked for by the nodes' own names."
          columns={[{ title: "Policy", cell: ({ spec: { policy } }) => words(policy, "the account's default") }]}
        />
        <Objects
          title="Keys"
          collection="keys"
          empty="None that this account may see."
          columns={[
            { title: "May", cell: ({ spec: { scopes } }) => words(scopes, "infer") },
            { title: "Models", isMinor: true, cell: ({ spec: { models } }) => words(models, "any") },
            { title: "Until", isMinor: true, cell: ({ spec: { expires_at: at } }) => words(at, "always") },
          ]}
        />
      </div>
    </section>
  );
}

/** What this key sees and what not. */
function TenantNote({ who: { name, account } }: { who: Whoami }) {
  return (
    <>
      The key {name} is of the account {account} and shows what belongs to it: its money, models, keys, policies and
      decisions, what-if and back-tests. {OPERATORS_SEE}
    </>
  );
}

const OPERATORS_SEE =
  "Nodes, the load and prices of the fleet, and other accounts are shown to operators: keys of the account default.";

/** In the place of a page that this key may not see. */
export function OperatorsPage({ title, who: { account } }: { title: string; who: Whoami }) {
  return (
    <section>
      <h1>{title} is for operators</h1>
      <p>
        Your key is of the account {account}. {OPERATORS_SEE}
      </p>
      <p>
        <a href="#/account">Go to your account</a>
      </p>
    </section>
  );
}

interface ObjectColumn {
  readonly title: string;
  readonly isMinor?: boolean;
  readonly cell: (object: ManagedObject) => string;
}

function Objects(props: { title: string; collection: string; empty: string; columns: readonly ObjectColumn[] }) {
  const { title, collection, empty, columns } = props;
  const { value, error } = useAnswer<ObjectPage>(`/${collection}?limit=${ROWS}`, EVERY_MS);
  return (
    <Card title={title}>
      <ErrorBox error={error} />
      {value !== null && value.items.length === 0 && <p class="empty">{empty}</p>}
      {value !== null && value.items.length > 0 && (
        <table>
          <thead>
            <tr>
              <Head title="Name" />
              {columns.map(({ title: name, isMinor = false }) => (
                <Head key={name} title={name} isMinor={isMinor} />
              ))}
            </tr>
          </thead>
          <tbody>
            {value.items.map((object) => (
              <tr key={object.name}>
                <th scope="row">
                  <span class="clip" title={object.name}>
                    {object.name}
                  </span>
                </th>
                {columns.map(({ title: name, isMinor = false, cell }) => (
                  <td key={name} class={isMinor ? "minor" : undefined}>
                    {cell(object)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {value !== null && value.next_cursor !== null && (
        <p class="quiet">
          The first {count(ROWS)}; <code>zml get {collection}</code> lists all.
        </p>
      )}
    </Card>
  );
}

/** A value of a spec, which has no defaults in it. */
function words(value: unknown, absent: string): string {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  return typeof value === "string" ? value : absent;
}
