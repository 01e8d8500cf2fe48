"""What an honest agent runs in its box: least squares on two lags, in Python without NumPy."""

import csv
import sys


def solve(a, b):
    """The solution of a small linear system, by elimination with pivots."""
    k = len(b)
    for i in range(k):
        pivot = max(range(i, k), key=lambda row: abs(a[row][i]))
        a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
        for row in range(i + 1, k):
            factor = a[row][i] / a[i][i]
            a[row] = [x - factor * y for x, y in zip(a[row], a[i], strict=True)]
            b[row] -= factor * b[i]
    solution = [0.0] * k
    for i in reversed(range(k)):
        rest = sum(a[i][j] * solution[j] for j in range(i + 1, k))
        solution[i] = (b[i] - rest) / a[i][i]
    return solution


def forecast(y):
    """The next value, by a regression of each value on the two before it."""
    rows = [(1.0, y[t - 1], y[t - 2]) for t in range(2, len(y))]
    squares = [[sum(row[i] * row[j] for row in rows) for j in range(3)] for i in range(3)]
    products = [
        sum(row[i] * value for row, value in zip(rows, y[2:], strict=True)) for i in range(3)
    ]
    beta = solve(squares, products)
    return beta[0] + beta[1] * y[-1] + beta[2] * y[-2]


if __name__ == "__main__":
    with open(f"catalog/{sys.argv[1]}.csv") as file:
        print("FITTED", forecast([float(row["value"]) for row in csv.DictReader(file)]))
