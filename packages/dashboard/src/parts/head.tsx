/** The head of a column. @param props.isMinor left out on narrow screens. */
export function Head(props: { title: string; isNumber?: boolean; isMinor?: boolean }) {
  const { title, isNumber = false, isMinor = false } = props;
  return (
    <th scope="col" class={`${isNumber ? "number" : ""} ${isMinor ? "minor" : ""}`.trim()}>
      {title}
    </th>
  );
}
