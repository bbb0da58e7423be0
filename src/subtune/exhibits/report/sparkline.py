"""A learning curve that fits in a row of a table."""

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 96, 24, 3


def sparkline(scores: Sequence[float], best_epoch: int) -> str:
    """Return an SVG image of the score by epoch, with a dot at the best epoch.

    Args:
        scores: one per epoch.
        best_epoch: from 1.
    """
    low, high = min(scores), max(scores)
    across, up = (WIDTH - 2 * MARGIN) / max(1, len(scores) - 1), HEIGHT - 2 * MARGIN
    points = [
        (
            MARGIN + number * across,
            HEIGHT - MARGIN - up * ((score - low) / (high - low) if high > low else 0.5),
        )
        for number, score in enumerate(scores)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[best_epoch - 1]
    text = f"{low:.4f} to {high:.4f} in {len(scores)} epochs, best in epoch {best_epoch}"
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text}">'
        f'<polyline points="{line}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2"/></svg>'
    )
