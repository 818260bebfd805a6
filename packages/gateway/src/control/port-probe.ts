/** Whether an address is free. Workers share their port, so that a second gateway on it would start without an error. */

import { createServer } from "node:net";
import { formatListen, type ListenAddress } from "@zml/protocol";
import { StartError } from "./start-error.ts";

/**
 * Binds the address exclusively and lets go of it again. Port 0 is always free.
 *
 * @param what `data.listen` or `admin.listen`, for the text.
 * @throws StartError when it can't be bound.
 */
export async function probePort(address: ListenAddress, what: string): Promise<void> {
  if (address.port === 0) return;
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: address.host, port: address.port, exclusive: true }, resolve);
    });
  } catch (error) {
    throw listenError(error, address, what);
  }
  await new Promise((resolve) => server.close(resolve));
}

/** The error of a bind as a text that says what to do. */
export function listenError(error: unknown, address: ListenAddress, what: string): StartError {
  const shown = formatListen(address);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "EADDRINUSE":
      return new StartError(
        `${what} ${shown} is taken by another process: stop that one, or set ${what} to another port (0: any free one)`,
      );
    case "EACCES":
      return new StartError(`${what} ${shown} needs more rights: set ${what} to a port above 1023`);
    case "EADDRNOTAVAIL":
      return new StartError(`${what} ${shown} is no address of this machine: set ${what} to one that it has`);
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new StartError(`${what} ${shown} can't be resolved: set ${what} to an address of this machine`);
    default:
      return new StartError(`${what} ${shown} can't be opened (${describe(error)}): set ${what} to another address`);
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
