import { availableParallelism } from "node:os";
import type { Config, ConfigIssue } from "@zml/protocol";
import { type BuildOptions, type BuildResult, buildConfig } from "./build-config.ts";
import { type ConfigProblem, problemAt, sortProblems, type TextPlace } from "./config-problem.ts";
import { type ConfigSecrets, type Environment, NO_SECRETS } from "./resolve-secrets.ts";
import { readYaml } from "./yaml-text.ts";

export interface ReadConfigOptions {
  /** How problems call the file. */
  readonly fileName: string;
  readonly env: Environment;
  /** Processor cores, for the default of `workers`. */
  readonly cores?: number;
  /** Unix ms, for keys that have ended. Default: now. */
  readonly nowMs?: number;
}

/** A valid file as it was read, for whoever puts other objects beside its own. */
export interface ConfigSource {
  readonly fileName: string;
  readonly value: Readonly<Record<string, unknown>>;
  /** Whether this is the text that was read. */
  isSameText(text: string): boolean;
  /** Where issues stand. Reads the text again: a document with its places is fifty times its text. */
  locate(issues: readonly ConfigIssue[]): ConfigProblem[];
  /** Reads another text as if it stood in this file. */
  read(text: string): ReadConfigResult;
  /** Builds a configuration out of other values, as if they stood in this file. */
  build(value: object, options: Pick<BuildOptions, "placeOf" | "ofFile">): BuildResult;
}

export interface ReadConfigResult {
  /** Absent when there are errors. */
  readonly config?: Config;
  /** The file itself. Absent when there are errors. */
  readonly source?: ConfigSource;
  /** The values of the keys, beside the configuration and never in it. Empty when there are errors. */
  readonly secrets: ConfigSecrets;
  /** By line. */
  readonly errors: readonly ConfigProblem[];
  /** By line. */
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Reads the text of a configuration file: syntax, schema, references, environment. Reports everything at once and never
 * throws; no message holds a secret.
 */
export function readConfig(
  text: string,
  { fileName, env, cores = availableParallelism(), nowMs = Date.now() }: ReadConfigOptions,
): ReadConfigResult {
  const yaml = readYaml(text);
  const syntax = yaml.problems.map((problem) =>
    problemAt(fileName, { line: problem.line, column: problem.column }, problem),
  );
  const failed = (errors: ConfigProblem[], warnings: ConfigProblem[] = []): ReadConfigResult => ({
    secrets: NO_SECRETS,
    errors: sortProblems(errors),
    warnings: sortProblems(warnings),
  });
  if (yaml.value === undefined) return failed(syntax);
  const whole = (message: string, hint: string) =>
    failed([...syntax, problemAt(fileName, START, { path: [], at: "value", message, hint })]);
  if (yaml.value === null) return whole("the file is empty", "start with a list of nodes");
  if (typeof yaml.value !== "object" || Array.isArray(yaml.value)) {
    return whole("the file is no mapping", "start with a key such as nodes:");
  }

  const around = { fileName, env, cores };
  const placeOf: BuildOptions["placeOf"] = (path) => yaml.place(path, "value").line;
  const built = buildConfig(yaml.value, { ...around, placeOf, nowMs });
  const located = (issue: ConfigIssue) => problemAt(fileName, yaml.place(issue.path, issue.at), issue);
  const errors = [...syntax, ...built.errors.map(located)];
  const warnings = built.warnings.map(located);
  if (errors.length > 0 || built.config === undefined) return failed(errors, warnings);
  const source = sourceOf(text, yaml.value, around);
  return { config: built.config, source, secrets: built.secrets, errors, warnings: sortProblems(warnings) };
}

/** In a function of its own, so that nothing here holds on to the document. */
function sourceOf(text: string, value: object, around: Pick<BuildOptions, "fileName" | "env" | "cores">): ConfigSource {
  return {
    fileName: around.fileName,
    value: value as Record<string, unknown>,
    isSameText: (other) => other === text,
    locate: (issues) => {
      const yaml = readYaml(text);
      return issues.map((issue) => problemAt(around.fileName, yaml.place(issue.path, issue.at), issue));
    },
    read: (other) => readConfig(other, around),
    build: (other, options) => buildConfig(other, { ...around, nowMs: Date.now(), ...options }),
  };
}

const START: TextPlace = { line: 1, column: 1 };
