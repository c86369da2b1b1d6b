"""What a command asks before it does what cannot be undone, unless `--yes` is said."""

import click


def confirm(question: str) -> None:
    """Ask, and go on with a yes alone. Raises click.Abort, and ClickException without an answer."""
    try:
        agreed = click.confirm(question)
    except click.Abort:
        click.echo()  # it stands behind the question
        raise click.ClickException("nobody answered, so nothing was done; see --yes") from None
    if not agreed:
        raise click.Abort
