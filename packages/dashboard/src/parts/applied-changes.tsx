export interface Applied {
  readonly changes: readonly {
    readonly kind: string;
    readonly name: string;
    readonly action: string;
    readonly fields?: readonly { readonly path: string; readonly before?: unknown; readonly after?: unknown }[];
  }[];
  readonly warnings?: readonly string[];
}

/** What a change of the configuration did, or would do. */
export function AppliedChanges({ applied, isDryRun }: { applied: Applied; isDryRun: boolean }) {
  return (
    <div role="status">
      {applied.changes.length === 0 && <p>Nothing changes.</p>}
      {applied.changes.map(({ kind, name, action, fields = [] }) => (
        <div key={`${kind} ${name}`}>
          <p>
            <span class={`state ${action}`}>{action}</span> {kind} <b>{name}</b>
            {isDryRun && <small> if it is saved</small>}
          </p>
          {fields.length > 0 && (
            <ul class="rows">
              {fields.map(({ path, before, after }) => (
                <li key={path}>
                  <code>{path}</code>: {JSON.stringify(before ?? null)} → <b>{JSON.stringify(after ?? null)}</b>
                </li>
              ))}
            </ul>
          )}
        </div>
      ))}
      {applied.warnings?.map((warning) => (
        <p key={warning} class="alarm warn">
          {warning}
        </p>
      ))}
    </div>
  );
}
