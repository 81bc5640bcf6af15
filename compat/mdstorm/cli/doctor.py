"""``mdstorm doctor``: check whether mdstorm can work here."""

from __future__ import annotations

import click

from mdstorm.cli import PROBLEMS_FOUND, examples, format_option, write_json

__all__ = ["doctor"]


@click.command(
    epilog=examples(
        "mdstorm doctor",
        "mdstorm doctor --cache-dir s3://bucket/cache",
        "mdstorm doctor --format json",
    )
)
@click.option(
    "--cache-dir",
    "url",
    metavar="URL",
    help="Directory for a round trip. Spark writes a small DataFrame there, this host reads it "
    "back and compares the values, and it is deleted. By default, there is no round trip.",
)
@click.option(
    "--round-trip/--no-round-trip",
    default=True,
    show_default=True,
    help="With --no-round-trip, only a small file is written to the directory and removed.",
)
@format_option
@click.pass_context
def doctor(ctx: click.Context, url: str | None, round_trip: bool, format_: str) -> None:
    """Check whether mdstorm can work here, and print a fix for each problem.

    Checks Python, library versions, Java, the Python of Spark's workers, the launcher and the
    caches. The exit code is 1 if there are problems.
    """
    from mdstorm.doctor import check_setup
    from mdstorm.doctor._requirements import world_of_job

    report = check_setup(url, round_trip=round_trip)
    world = world_of_job()
    if world is not None and world.rank and not report.problems:
        return  # without problems, only rank 0 prints its report
    if format_ == "json":
        write_json(report.to_json())
    else:
        click.echo(str(report))
        count = len(report.problems)
        click.echo(f"{count} problem{'s' * (count != 1)} found" if count else "no problems found")
    ctx.exit(PROBLEMS_FOUND if report.problems else 0)
