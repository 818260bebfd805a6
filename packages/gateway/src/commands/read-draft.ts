/** The draft of a back-test or of `zml decide`: one policy, or a file with `policies`. */

import { type ConfigPath, camelize, type PolicyConfig, parseConfigFile } from "@zml/protocol";
import { formatProblems, problemAt, sortProblems } from "../config/config-problem.ts";
import { readYaml } from "../config/yaml-text.ts";

export interface Draft {
  /** As they stand there, which is as the admin API takes them. */
  readonly policies: readonly Record<string, unknown>[];
  readonly configs: readonly PolicyConfig[];
  /** The place of a path that a gateway names: `draft.yaml:4:5 policies[0].name`. */
  locate(path: string, message: string): string;
}

/** @returns the draft, or everything that is wrong with it, a line each. */
export function readDraft(file: string, text: string): Draft | { readonly problems: string } {
  const yaml = readYaml(text);
  const broken = yaml.problems.map((problem) => problemAt(file, problem, problem));
  if (yaml.value === undefined || broken.length > 0) return { problems: formatProblems(broken) };
  const isMapping = typeof yaml.value === "object" && yaml.value !== null && !Array.isArray(yaml.value);
  const value = isMapping ? (yaml.value as Record<string, unknown>) : {};
  const isOne = isMapping && !("policies" in value);
  const policies = isOne ? [value] : Array.isArray(yaml.value) ? yaml.value : value["policies"];
  // one policy and a list of them stand at other places than in a configuration
  const inFile = (path: ConfigPath): ConfigPath => {
    if (path[0] !== "policies") return path;
    return isOne ? path.slice(2) : Array.isArray(yaml.value) ? path.slice(1) : path;
  };
  const parsed = parseConfigFile({ policies });
  if ("issues" in parsed) {
    const located = parsed.issues.map((issue) => {
      const path = inFile(issue.path);
      return problemAt(file, yaml.place(path, issue.at), { ...issue, path });
    });
    return { problems: formatProblems(sortProblems(located)) };
  }
  if (parsed.file.policies.length === 0) {
    const message = "expected one policy, or policies under policies:, as they stand in zml.yaml; it holds none";
    const issue = { path: [], at: "value", message, hint: null } as const;
    return { problems: formatProblems([problemAt(file, yaml.place([], "value"), issue)]) };
  }
  return {
    policies: policies as Record<string, unknown>[],
    configs: parsed.file.policies.map((policy) => camelize(policy)),
    locate: (path, message) => {
      const parts = path
        .split(/[.[\]]+/)
        .filter((part) => part !== "")
        .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
      const at = inFile(parts);
      const issue = { path: at, at: "value", message, hint: null } as const;
      return formatProblems([problemAt(file, yaml.place(at, "value"), issue)]);
    },
  };
}
