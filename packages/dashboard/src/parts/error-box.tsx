import type { ApiError } from "../api.ts";

/** What the API refused, with every field that is wrong. */
export function ErrorBox({ error }: { error: ApiError | null }) {
  if (error === null) return null;
  return (
    <div class="alarm" role="alert">
      <p>{error.message}</p>
      {error.details.length > 0 && (
        <ul>
          {error.details.map((detail) => (
            <li key={detail}>{detail}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
