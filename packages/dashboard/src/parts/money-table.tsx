/** What requests cost and save, by whom, by model, by family, or by policy. */

import type { MoneyFiguresJson, MoneyJson, MoneyRowJson } from "@zml/protocol/admin";
import { useState } from "preact/hooks";
import { count, ms, percent, plain, usd } from "../words.ts";
import { Bar } from "./bar.tsx";
import { Card } from "./card.tsx";
import { ErrorBox } from "./error-box.tsx";
import { Head } from "./head.tsx";
import { useAnswer } from "./use-answer.ts";

const EVERY_MS = 5_000;
const ROWS = 50;

const WINDOWS = [
  ["minute", "the last minute"],
  ["hour", "the last hour"],
  ["day", "the last day"],
  ["start", "since the start"],
] as const;

const GROUPS = ["account", "model", "family", "policy"] as const;

/** @param props.isTenant there is one account only. */
export function MoneyTable({ isTenant = false }: { isTenant?: boolean }) {
  const [window, setWindow] = useState<string>("hour");
  const [by, setBy] = useState<string>("family");
  const { value, error } = useAnswer<MoneyJson>(`/money?window=${window}&by=${by}&limit=${ROWS}`, EVERY_MS);
  return (
    <Card title="What requests cost">
      <div class="filters">
        <label>
          By
          <select value={by} onChange={(event) => setBy(event.currentTarget.value)}>
            {GROUPS.filter((group) => !isTenant || group !== "account").map((group) => (
              <option key={group} value={group}>
                {group}
              </option>
            ))}
          </select>
        </label>
        <label>
          Over
          <select value={window} onChange={(event) => setWindow(event.currentTarget.value)}>
            {WINDOWS.map(([name, shown]) => (
              <option key={name} value={name}>
                {shown}
              </option>
            ))}
          </select>
        </label>
        {value !== null && <small role="status">counted over {ms(value.seconds * 1000)}</small>}
      </div>
      <ErrorBox error={error} />
      {value !== null && value.total.usd === 0 && <p class="empty">No request has cost anything yet.</p>}
      {value !== null && value.total.usd > 0 && <Rows money={value} />}
    </Card>
  );
}

function Rows({ money }: { money: MoneyJson }) {
  const { by, rows, other, other_rows, total } = money;
  const isShared = new Set(rows.map(({ account }) => account)).size > 1 && (by === "model" || by === "policy");
  return (
    <>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <Head title={`${by[0]?.toUpperCase()}${by.slice(1)}`} />
              <Head title="Spent" isNumber />
              <Head title="Per hour" isNumber />
              <Head title="Per million tokens" isNumber />
              <Head title="Answers" isNumber isMinor />
              <Head title="Failed attempts" isNumber isMinor />
              <Head title="Saved per hour" isNumber />
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={`${row.account} ${row.name}`} name={nameOf(row, isShared)} figures={row} all={total.usd} />
            ))}
            {other !== null && <Row name={`${count(other_rows)} more`} figures={other} all={total.usd} />}
            {rows.length > 1 && <Row name="All" figures={total} all={total.usd} />}
          </tbody>
        </table>
      </div>
      <p class="quiet">
        Dollars of node time, failed attempts included. Saved: against all requests on the family that their policy
        names first. {notesOf(total)}
      </p>
    </>
  );
}

function Row({ name, figures, all }: { name: string; figures: MoneyFiguresJson; all: number }) {
  return (
    <tr>
      <th scope="row">
        <span class="clip" title={name}>
          {name}
        </span>
      </th>
      <td class="number">
        <Bar share={all > 0 ? figures.usd / all : 0} />
        <span class="figure">{usd(figures.usd)}</span>
      </td>
      <td class="number">{usd(figures.usd_per_hour)}</td>
      <td class="number">{usd(figures.usd_per_million_tokens)}</td>
      <td class="number minor">{count(figures.answers)}</td>
      <td class="number minor">{usd(figures.failed_usd)}</td>
      <td class="number">
        {figures.savings_share === null ? (
          "–"
        ) : (
          <>
            {usd(figures.savings_usd_per_hour)} <small>{percent(figures.savings_share)}</small>
          </>
        )}
      </td>
    </tr>
  );
}

function nameOf({ account, name }: MoneyRowJson, isShared: boolean): string {
  return isShared && account !== null ? `${account} · ${name}` : name;
}

function notesOf(total: MoneyFiguresJson): string {
  const notes: string[] = [];
  if (total.unpriced_answers > 0) {
    notes.push(`${count(total.unpriced_answers)} answers came from nodes without a known price and are in no dollars.`);
  }
  if (total.baseline_assumed_usd > 0) notes.push("A part of the comparison stands on a speed that is assumed.");
  return plain(notes.join(" "));
}
