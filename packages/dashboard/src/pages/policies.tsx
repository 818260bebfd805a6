import { useState } from "preact/hooks";
import { type Following, isTenant } from "../live.ts";
import { ErrorBox } from "../parts/error-box.tsx";
import { ObjectPicker } from "../parts/object-picker.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { NEW_POLICY, PolicyEditor } from "../parts/policy-editor.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useFamilies } from "../parts/use-families.ts";
import type { ManagedObject } from "../types.ts";

/** @param props.name `account/policy` that is edited; "": a new one. */
export function PoliciesPage({ name, following }: { name: string; following: Following }) {
  const [turn, setTurn] = useState(0);
  const cut = name.indexOf("/");
  const own = following.who?.account ?? "default";
  const [account, policy] = cut < 0 ? [own, name] : [name.slice(0, cut), name.slice(cut + 1)];
  const path = `/policies/${encodeURIComponent(policy)}?account=${encodeURIComponent(account)}`;
  const chosen = useAnswer<ManagedObject>(policy === "" ? null : path);
  const families = useFamilies(following);
  const mayWrite = following.who?.may_write ?? true;
  return (
    <section>
      <PageHead title="Policies">
        Which families a request may go to, in which order, within which time and at what price. A change is checked as
        a whole before it is saved.
      </PageHead>
      <div class="split">
        <div class="card">
          <ObjectPicker
            collection="policies"
            label="Search by name or account"
            chosen={`${account}/${policy}`}
            hrefOf={(object) => `#/policies/${encodeURIComponent(`${object.account}/${object.name}`)}`}
            turn={turn}
          />
          <p>
            <a href="#/policies">A new policy</a>
          </p>
        </div>
        <div class="card">
          <ErrorBox error={chosen.error} />
          {policy === "" && (
            <PolicyEditor
              key="new"
              title="A new policy"
              account={own}
              isTenant={isTenant(following.who)}
              spec={NEW_POLICY}
              lock={mayWrite ? null : READ_ONLY}
              families={families}
              onSaved={() => setTurn(turn + 1)}
            />
          )}
          {chosen.value !== null && (
            <PolicyEditor
              key={`${name} ${chosen.value.revision}`}
              title={policy}
              account={account}
              isTenant={isTenant(following.who)}
              spec={chosen.value.spec}
              lock={chosen.value.owner === "api" ? (mayWrite ? null : READ_ONLY) : FILES}
              families={families}
              onSaved={() => {
                setTurn(turn + 1);
                chosen.again();
              }}
            />
          )}
        </div>
      </div>
    </section>
  );
}

const FILES = "It stands in zml.yaml, which owns it: change it there.";
const READ_ONLY = "Your key reads only: a key with the scope admin can change it.";
