/**
 * Addresses that no node has: link-local ones, and those at which clouds give credentials to whoever asks from inside.
 * A node's address comes from a file, an API or DNS, and what stands there is asked and sent on to callers: one of these
 * would make the gateway read secrets for whoever can name a node. Loopback is fine, engines run beside the gateway.
 */

/** Single addresses at which clouds serve metadata, outside of the link-local ranges. */
const METADATA_V4: ReadonlySet<string> = new Set([
  "100.100.100.200", // Alibaba Cloud
  "168.63.129.16", // Azure's wire server
  "192.0.0.192", // Oracle Cloud
]);
const METADATA_V6: ReadonlySet<string> = new Set([
  "fd00:ec2:0:0:0:0:0:254", // AWS
  "fd20:ce:0:0:0:0:0:254", // Google Cloud
]);

/** First 96 bits of addresses that carry an IPv4 address in their last 32. */
const CARRIERS: ReadonlySet<string> = new Set([
  "0:0:0:0:0:0", // IPv4-compatible
  "0:0:0:0:0:ffff", // IPv4-mapped
  "0:0:0:0:ffff:0", // IPv4-translated
  "64:ff9b:0:0:0:0", // NAT64
  "64:ff9b:1:0:0:0", // NAT64, local use
]);

/**
 * Why an address belongs to no node, or null where it may.
 *
 * @param host of a URL as `URL.hostname` gives it, which has brought decimal, octal, hexadecimal and short spellings into
 *   one, or an address as a name resolves to it. A name that is no address is not looked at.
 */
export function whyNoNodeAddress(host: string): "link_local" | "metadata" | null {
  if (/^\d+\.\d+\.\d+\.\d+$/.test(host)) return whyNotV4(host);
  const groups = groupsOf(host);
  if (groups === null) return null;
  const [first = 0, second = 0, third = 0] = groups;
  // fe80::/10
  if ((first & 0xffc0) === 0xfe80) return "link_local";
  const text = groups.map((group) => group.toString(16));
  if (METADATA_V6.has(text.join(":"))) return "metadata";
  if (CARRIERS.has(text.slice(0, 6).join(":"))) return whyNotV4(dotted(groups[6], groups[7]));
  // 6to4
  if (first === 0x2002) return whyNotV4(dotted(second, third));
  return null;
}

function whyNotV4(address: string): "link_local" | "metadata" | null {
  if (address.startsWith("169.254.")) return "link_local";
  return METADATA_V4.has(address) ? "metadata" : null;
}

function dotted(high = 0, low = 0): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The eight groups of an IPv6 address, with or without brackets and zone; null: it is none. */
function groupsOf(host: string): number[] | null {
  const bare = host.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  if (!bare.includes(":") || !URL.canParse(`http://[${bare}]/`)) return null;
  // the canonical form has no dots any more
  const canonical = new URL(`http://[${bare}]/`).hostname.slice(1, -1);
  const [head = "", tail] = canonical.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = new Array<string>(8 - left.length - right.length).fill("0");
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16));
}
