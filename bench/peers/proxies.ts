/** How each gateway is started in front of one node, and what a request to it needs beside what all have. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { benchConfig } from "../processes.ts";
import { commandOf, type Installed } from "./install.ts";

/** A gateway to measure. */
export interface Peer {
  name: string;
  command: string;
  args: string[];
  env?: Record<string, string>;
  /** Further header fields of a request. */
  headers?: Record<string, string>;
  /** It can't relay streams as it is installed. */
  hasNoStreams?: true;
}

/** A key that callers of ZML show, so that looking one up is part of the figure. It protects nothing. */
const BENCH_KEY = "bench-key-that-opens-nothing-0123456789";

/**
 * @param folder for configurations. @param launcher of ZML. @param nodePorts ports of two equal nodes; the second is for
 *   routers that refuse to route to one. @param takePort gives a free port.
 * @returns those that can be started here, and the names of those that can't.
 */
export async function proxiesOf(
  folder: string,
  launcher: string,
  [nodePort, secondPort]: readonly [number, number],
  installed: Installed,
  takePort: () => Promise<number>,
): Promise<{ proxies: (Peer & { port: number })[]; missing: string[] }> {
  const nodeUrl = `http://127.0.0.1:${nodePort}`;
  const proxies: (Peer & { port: number })[] = [];
  const missing: string[] = [];
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const add = async (make: (port: number) => Peer | Promise<Peer>): Promise<void> => {
    const port = await takePort();
    proxies.push({ ...(await make(port)), port });
  };
  for (const workers of [1, 2]) {
    await add(async (port) => ({
      name: workers === 1 ? "zml" : "zml_2_workers",
      command: process.execPath,
      args: [
        launcher,
        ...["serve", "--log-level", "error", "-c", file(`zml-${workers}.yaml`, zmlConfig(port, nodePort, workers))],
      ],
      env: { ZML_BENCH_KEY: BENCH_KEY },
      headers: { authorization: `Bearer ${BENCH_KEY}` },
    }));
  }
  await add((port) => ({
    name: "bare",
    command: process.execPath,
    args: [fileURLToPath(new URL("../overhead/bare-proxy.ts", import.meta.url)), nodeUrl, String(port)],
  }));
  const rust = async (port: number): Promise<string[]> => [
    ...[
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--worker-urls",
      nodeUrl,
      `http://127.0.0.1:${secondPort}`,
      "--policy",
      "power_of_two",
    ],
    ...["--prometheus-port", String(await takePort()), "--prometheus-host", "127.0.0.1"],
  ];
  await add(async (port) => ({
    name: "smg",
    command: installed.smg,
    args: ["launch", ...(await rust(port)), "--disable-tokenizer-autoload", "--log-level", "warn"],
  }));
  await add(async (port) => ({
    name: "vllm-router",
    command: installed.vllmRouter,
    args: [...(await rust(port)), "--log-level", "warning"],
  }));
  await add(async (port) => ({
    name: "sglang-router",
    command: installed.sglangPython,
    args: ["-m", "sglang_router.launch_router", ...(await rust(port)), "--log-level", "warn"],
  }));
  await add((port) => ({
    name: "envoy",
    command: installed.envoy,
    args: ["-c", file("envoy.yaml", envoyConfig(port, nodePort)), "--concurrency", "1", "--disable-hot-restart"],
  }));
  await add((port) => ({
    name: "portkey",
    command: process.execPath,
    args: [installed.portkey, `--port=${port}`, "--headless"],
    env: { NODE_ENV: "production" },
    headers: {
      "x-portkey-config": JSON.stringify({ provider: "openai", api_key: "none", custom_host: `${nodeUrl}/v1` }),
    },
    hasNoStreams: true,
  }));
  const nginx = commandOf("nginx");
  if (nginx === null) missing.push("nginx");
  else
    await add((port) => ({
      name: "nginx",
      command: nginx,
      args: ["-p", folder, "-e", "stderr", "-c", file("nginx.conf", nginxConfig(port, nodePort))],
    }));
  const haproxy = commandOf("haproxy");
  if (haproxy === null) missing.push("haproxy");
  else
    await add((port) => ({
      name: "haproxy",
      command: haproxy,
      args: ["-db", "-f", file("haproxy.cfg", haproxyConfig(port, nodePort))],
    }));
  return { proxies, missing };
}

/** With a key, so that requests pay for authentication; limits, metrics and evidence are always on. */
function zmlConfig(port: number, nodePort: number, workers: number): string {
  const config = benchConfig(nodePort)
    .replace('data: { listen: "127.0.0.1:0" }', `data: { listen: "127.0.0.1:${port}" }`)
    .replace("workers: 1", `workers: ${workers}`);
  return `${config}keys: [{ name: bench, value_env: ZML_BENCH_KEY, scopes: [infer] }]\n`;
}

function envoyConfig(port: number, nodePort: number): string {
  const router = `{ name: envoy.filters.http.router, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router } }`;
  return `static_resources:
  listeners:
    - address: { socket_address: { address: 127.0.0.1, port_value: ${port} } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: bench
                http_filters: [ ${router} ]
                route_config:
                  virtual_hosts: [ { name: all, domains: ["*"], routes: [ { match: { prefix: "/" }, route: { cluster: node, timeout: 0s } } ] } ]
  clusters:
    - name: node
      type: STATIC
      connect_timeout: 2s
      circuit_breakers: { thresholds: [ { max_connections: 20000, max_pending_requests: 20000, max_requests: 20000 } ] }
      load_assignment:
        cluster_name: node
        endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${nodePort} } } } } ] } ]
`;
}

function nginxConfig(port: number, nodePort: number): string {
  return `daemon off; worker_processes 1; pid nginx.pid; error_log stderr error; worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
  access_log off; client_body_temp_path client; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  keepalive_requests 1000000;
  upstream node { server 127.0.0.1:${nodePort}; keepalive 512; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://node; proxy_http_version 1.1; proxy_set_header connection ""; proxy_buffering off; proxy_read_timeout 600s; }
  }
}
`;
}

function haproxyConfig(port: number, nodePort: number): string {
  return `global
  nbthread 1
  maxconn 8000
defaults
  mode http
  option http-no-delay
  timeout connect 2s
  timeout client 600s
  timeout server 600s
frontend in
  bind 127.0.0.1:${port}
  default_backend nodes
backend nodes
  server node 127.0.0.1:${nodePort}
`;
}
