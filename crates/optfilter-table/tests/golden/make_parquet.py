"""Makes the Parquet tables that tests/parquet.rs reads: pip install pandas pyarrow, then run in this folder.

The files hold what data frames hold in practice: timestamps in nanoseconds (pandas' own), missing values,
integers, single precision, columns that no model asks for, and two kinds of compression.
"""

import numpy as np
import pandas as pd

n = 40
k = np.arange(n)
frame = pd.DataFrame(
    {
        "comment": [f"row {i}" for i in k],
        "when": pd.date_range("2026-11-15T13:00:00Z", periods=n, freq="1500ms"),
        "count": (k * 7) % 11,
        "speed": np.where(k % 5 == 3, np.nan, k * 0.125),
        "single": (k / 8).astype(np.float32),
    }
)
frame.to_parquet("pandas.parquet", engine="pyarrow", compression="snappy", index=False)
frame["when"] = frame["when"].dt.tz_localize(None).dt.floor("D") + pd.to_timedelta(k, unit="D")
frame["when"] = frame["when"].dt.date
frame.to_parquet("dates.parquet", engine="pyarrow", compression="gzip", index=False)

# zstd, as Polars writes it by default: pages of the first and of the second version, with dictionaries.
frame = frame.drop(columns="comment").assign(step=np.where(k % 5 == 3, np.nan, k // 4))
for version, name in [("1.0", "zstd1"), ("2.0", "zstd2")]:
    frame.to_parquet(f"{name}.parquet", engine="pyarrow", compression="zstd", index=False, data_page_version=version)
frame.to_parquet("lz4.parquet", engine="pyarrow", compression="lz4", index=False)
frame.to_parquet("brotli.parquet", engine="pyarrow", compression="brotli", index=False)
# Spark's older timestamps; one that no calendar reaches; values that are no numbers.
frame["when"] = pd.to_datetime(frame["when"])
frame[["when", "speed"]].to_parquet("int96.parquet", engine="pyarrow", index=False, use_deprecated_int96_timestamps=True)
odd = pd.DataFrame({"far": pd.array([2**62, 0], dtype="int64").astype("datetime64[us]"), "odd": [np.inf, np.nan]})
odd.to_parquet("odd.parquet", engine="pyarrow", index=False)
