export * from "./headers.ts";
export * from "./routing.ts";
