import { Component, type ComponentChildren } from "preact";

interface Props {
  /** Another one: what failed before is tried again. */
  readonly of: unknown;
  readonly children: ComponentChildren;
}

/** A page that can't be drawn from what the gateway answered says so, in place of a blank tab. */
export class SafePage extends Component<Props, { failed: string | null }> {
  override state = { failed: null as string | null };

  static override getDerivedStateFromError(error: unknown): { failed: string } {
    return { failed: error instanceof Error ? error.message : String(error) };
  }

  override componentDidUpdate(before: Props): void {
    if (before.of !== this.props.of && this.state.failed !== null) this.setState({ failed: null });
  }

  override render() {
    if (this.state.failed === null) return this.props.children;
    return (
      <div class="alarm" role="alert">
        <p>
          This page can't show what the gateway answers. The gateway may be of another version than the page that is
          open.
        </p>
        <p>
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>{" "}
          <small>{this.state.failed}</small>
        </p>
      </div>
    );
  }
}
