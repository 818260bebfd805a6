/** For tests: a configuration out of YAML, with the secrets of an environment. */

import assert from "node:assert/strict";
import type { Config } from "@zml/protocol";
import { readConfig } from "../../config/read-config.ts";
import type { ConfigSecrets } from "../../config/resolve-secrets.ts";

export function configured(text: string, env: Record<string, string> = {}): { config: Config; secrets: ConfigSecrets } {
  const { config, secrets, errors } = readConfig(text, { fileName: "zml.yaml", env, cores: 2 });
  assert.ok(config !== undefined, errors.map(({ message }) => message).join("\n"));
  return { config, secrets };
}
