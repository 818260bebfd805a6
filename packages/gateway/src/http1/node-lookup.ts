/** Looks up the name of a node, and gives no address that no node has: what DNS says today need not hold tomorrow. */

import type { LookupFunction } from "node:net";
import { whyNoNodeAddress } from "@zml/protocol/node-address";
import { sharedLookup } from "./shared-lookup.ts";

/** Code of a connect that was refused since the host is, or has only, link-local and metadata addresses. */
export const LINK_LOCAL = "ZML_LINK_LOCAL";

/** What such a connect fails with. */
export function linkLocalError(): NodeJS.ErrnoException {
  return Object.assign(new Error(LINK_LOCAL), { code: LINK_LOCAL });
}

/** As `dns.lookup`, for connects. Addresses that a node may have are given even where the name has others as well. */
export const lookupNode = lookupWhere((address) => whyNoNodeAddress(address) === null);

/** The same for nodes that may have any address. */
export const lookupAnyNode = lookupWhere(() => true);

function lookupWhere(isAllowed: (address: string) => boolean): LookupFunction {
  return (hostname, options, callback) => {
    sharedLookup(hostname, options, (error, addresses) => {
      if (error !== null) {
        callback(error, "", 0);
        return;
      }
      const allowed = addresses.filter(({ address }) => isAllowed(address));
      const [first] = allowed;
      if (first === undefined) callback(linkLocalError(), "", 0);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
