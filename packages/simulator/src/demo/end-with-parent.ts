/**
 * Loaded into the demo's gateway before anything else (`node --import`): ends the process when the demo is gone, even by
 * SIGKILL, which no handler of the demo sees.
 */
process.on("disconnect", () => {
  process.exit(1);
});
// The listener alone must not keep the gateway running when it has drained.
process.channel?.unref();
