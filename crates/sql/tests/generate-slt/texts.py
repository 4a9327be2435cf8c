"""Statements about the texts of values, drawn at random: regular expressions, the
input of dates, times and intervals, pictures, format(), blanks. fuzz.py mixes
them in, or makes files of one kind alone (`--kind`)."""
import random

MONTHS = ["Jan", "January", "feb", "MAR", "april", "May", "jun", "Sept", "september", "Dec", "oct"]
DAYS = ["Mon", "tuesday", "Wed", "Thurs", "fri", "SATURDAY", "sun", "weds"]
ZONES = ["Z", "UTC", "GMT", "EST", "EDT", "PST", "pdt", "CET", "CEST", "MSK", "IST", "NST", "zulu", "MET DST", "EST DST", "BST", "ART", "VET", "foo",
         "Europe/Berlin", "america/new_york", "Asia/Kolkata", "Etc/GMT+5", "Nosuch/Zone", "EST5EDT", "PST8PDT", "PST+03:00", "GMT+0200", "GMT+2", "UTC-3", "GMT-03:30", "FOO+4", "<X>3",
         "+02", "-05", "+0530", "-03:30", "+05:30:15", "+16", "-15:59", "+2", "+023", "- 03", "+5:3", "+99"]
SPECIALS = ["epoch", "infinity", "-infinity", "+infinity", "allballs", "allballs UTC"]


def quoted(text):
    """A literal on one line."""
    text = text.replace("'", "''")
    if not any(c < " " for c in text):
        return "'" + text + "'"
    return "E'" + "".join(f"\\u{ord(c):04x}" if c < " " else "\\\\" if c == "\\" else c for c in text) + "'"


class Texts:
    def __init__(self, seed):
        self.r = random.Random(seed * 7919 + 17)

    def pick(self, *choices):
        return self.r.choice(choices)

    def number(self, low, high, width=0):
        return str(self.r.randint(low, high)).zfill(width)

    # --- dates and times --------------------------------------------------------

    def date_text(self):
        r = self.r
        y = self.pick(self.number(1900, 2100), self.number(1, 99), self.number(0, 9), self.number(1, 12000), "0", "0000", "0044", "294276", "5874897", "2024")
        m, d = self.pick(self.number(1, 12), self.number(1, 12, 2), self.number(1, 12, 2), self.number(0, 14)), self.pick(self.number(1, 28), self.number(1, 28, 2), self.number(0, 33), "29", "31")
        month = r.choice(MONTHS)
        s = self.pick("-", "-", "/", ".", " ")
        k = r.randrange(22)
        if k < 5: return f"{y.zfill(4)}-{m.zfill(2)}-{d.zfill(2)}"
        if k == 5: return f"{m}{s}{d}{s}{y}"
        if k == 6: return f"{y}{s}{m}{s}{d}"
        if k == 7: return f"{d}{s}{month}{s}{y}"
        if k == 8: return f"{month}{s}{d}{s}{y}"
        if k == 9: return f"{y}{s}{month}{s}{d}"
        if k == 10: return f"{month} {d}, {y}"
        if k == 11: return f"{y.zfill(4)}{m.zfill(2)}{d.zfill(2)}"
        if k == 12: return f"{self.number(0, 99, 2)}{m.zfill(2)}{d.zfill(2)}"
        if k == 13: return f"{y.zfill(4)}{self.pick('.', '-', ' ', '')}{self.number(0, 370, 3)}"
        if k == 14: return f"{self.pick('J', 'j', 'JD', 'julian', 'J ')}{self.pick(self.number(0, 3000000), self.number(2451000, 2460000) + '.25', self.number(2451000, 2460000) + '+02')}"
        if k == 15: return f"{self.pick('y', 'Y')}{y}{self.pick(' ', '')}m{m} d{d}"
        if k == 16: return self.pick("2024-W05", "2024-W05-3", "2024W053", "2024-060", "1999.12.31.5", "12-Jan", "Jan-12", "99-Feb-08", "08-Feb-99", "1-2", "2024-02", "J2451187", "1.5", "12")
        if k == 17: return f"{r.choice(DAYS)}{self.pick(' ', ', ')}{d} {month} {y}"
        if k == 18: return f"{r.choice(DAYS)} {month} {d}"
        if k == 19: return f"{d}{month}{y}"
        if k == 20: return self.pick(*SPECIALS)
        return f"{y.zfill(4)}-{m.zfill(2)}-{d.zfill(2)} BC"

    def time_text(self):
        h, m, s = self.pick(self.number(0, 23, 2), self.number(0, 12), self.number(0, 25)), self.pick(self.number(0, 59, 2), self.number(0, 61)), self.pick(self.number(0, 59, 2), self.number(0, 61))
        f = self.pick("", "", ".5", ".123456", ".1234567", ".9999999", ".", ".0000005")
        k = self.r.randrange(12)
        if k < 4: return f"{h}:{m}:{s}{f}"
        if k == 4: return f"{h}:{m}"
        if k == 5: return f"{h}:{m} {self.pick('AM', 'PM', 'pm', 'a.m.')}"
        if k == 6: return f"{h}:{m}:{s}{f} {self.pick('am', 'PM')}"
        if k == 7: return f"{h.zfill(2)}{m.zfill(2)}{s.zfill(2)}{f}"
        if k == 8: return f"{h.zfill(2)}{m.zfill(2)}"
        if k == 9: return self.pick("24:00:00", "24:00:01", "23:59:60", "23:59:59.9999999", "12:", "12::5", "1:2:3:4", "5.5", "10.5:3", "allballs", "24:00", "25:00", "00:00:60.5", "h12 m5 s6", "h5", "12:30:")
        if k == 10: return f"{h}:{m}{f}"
        return f"T{h}:{m}:{s}"

    def moment(self):
        parts = []
        r = self.r
        if r.random() < 0.92: parts.append(self.date_text())
        if r.random() < 0.7: parts.append(self.time_text())
        if r.random() < 0.45: parts.append(r.choice(ZONES))
        if r.random() < 0.08: parts.append(self.pick("BC", "AD", "bc"))
        if r.random() < 0.06: parts.append(r.choice(DAYS))
        if r.random() < 0.03: parts.append(self.pick("at", "on", "dst", "foo", "t", "d", "m", "+", "-", ",", "mm", "dow", "é", "\u00a0"))
        if r.random() < 0.15: r.shuffle(parts)
        joint = self.pick(" ", " ", " ", " ", "", "T", "  ", "t", ", ", "-", "/")
        text = joint.join(parts[:2]) + "".join(self.pick(" ", " ", "", "  ") + p for p in parts[2:])
        return text if r.random() < 0.9 else " " + text + " "

    def q_datetime(self):
        kind = self.pick("date", "time", "timestamp", "timestamptz", "timestamptz", "timestamptz", "timestamp")
        text = self.moment() if kind != "time" or self.r.random() < 0.4 else self.time_text() + self.pick("", "", " " + self.r.choice(ZONES), self.r.choice(ZONES))
        return f"SELECT {quoted(text)}::{kind}"

    def q_zone(self):
        zone = self.r.choice(ZONES)
        ts = self.pick("'2024-07-01 12:00:00'", "'2024-01-01 12:00:00'", "'1999-12-31 23:59:59.5'")
        k = self.r.randrange(4)
        if k == 0: return f"SELECT timestamptz {ts} AT TIME ZONE {quoted(zone)}"
        if k == 1: return f"SELECT timestamp {ts} AT TIME ZONE {quoted(zone)}"
        if k == 2: return f"SELECT date_trunc('day', timestamptz {ts}, {quoted(zone)})"
        return f"SELECT make_timestamptz(2024, {self.number(1, 12)}, 5, 6, 7, 8.5, {quoted(zone)})"

    # --- intervals ----------------------------------------------------------------

    UNITS = ["us", "usec", "microsecond", "microseconds", "ms", "msec", "milliseconds", "s", "sec", "second", "seconds", "m", "min", "minutes", "mm", "h", "hr", "hour", "hours", "d", "day", "days",
             "w", "week", "weeks", "mon", "mons", "month", "months", "y", "yr", "year", "years", "dec", "decade", "decades", "c", "cent", "century", "mil", "millennium", "millennia", "quarter", "foo", "dow"]
    FIELDS = ["year", "month", "day", "hour", "minute", "second", "year to month", "day to hour", "day to minute", "day to second", "hour to minute", "hour to second", "minute to second",
              "second(0)", "second(2)", "day to second(1)", "minute to second(3)"]

    def amount(self):
        return self.pick("", "", "-", "+", "- ") + self.pick(self.number(0, 9), self.number(0, 100), self.number(0, 60), self.number(0, 100) + "." + self.number(0, 999), "." + self.number(0, 9), "1.", "2147483647", "2147483648", "178956970", "0.5", "1.5", "1e3", "9223372036854775807")

    def interval_text(self):
        r = self.r
        k = r.randrange(14)
        if k < 5: return " ".join(f"{self.amount()}{self.pick(' ', ' ', '')}{r.choice(self.UNITS)}" for _ in range(r.randrange(1, 4))) + self.pick("", "", "", " ago", " " + self.clock(), " " + self.clock() + " ago")
        if k == 5: return self.clock()
        if k == 6: return f"{self.amount()} {self.clock()}"
        if k == 7: return f"{self.pick('', '-', '+')}{self.number(0, 20)}-{self.number(0, 13)}" + self.pick("", f" {self.amount()} {self.clock()}", f" {self.clock()}", f" {self.amount()}")
        if k == 8: return self.amount()
        if k < 11: return self.iso_interval()
        if k == 11: return "@ " + f"{self.amount()} {r.choice(self.UNITS)} {self.amount()} {r.choice(self.UNITS)}" + self.pick("", " ago")
        if k == 12: return f"{self.amount()} {r.choice(self.UNITS)} {self.amount()}"
        return self.pick("", "ago", "1 ago", "day 1", "1 day day", "1 2 3", "infinity", "now", "1-2-3", "1 day ago ago", "ago 1 day", "1:2:3 5", "5 1:2:3", "P", "PT", "1day2hours", "at 5 days", "1 day, 2 hours", "1 mon -1 day", "\u00a01 day", "1:00 1.5 days")

    def clock(self):
        return self.pick("", "", "-", "+") + self.pick(f"{self.number(0, 30)}:{self.number(0, 60)}", f"{self.number(0, 200)}:{self.number(0, 59, 2)}:{self.number(0, 61, 2)}",
                                                      f"{self.number(0, 30)}:{self.number(0, 59, 2)}:{self.number(0, 59, 2)}.{self.number(0, 9999999)}", f"{self.number(0, 30)}:{self.number(0, 59)}.{self.number(0, 999)}", "2562047788:00:54.775807", "99999999999:0")

    def iso_interval(self):
        n = lambda: self.pick("", "", "-") + self.pick(self.number(0, 99), self.number(0, 9) + "." + self.number(0, 99), "." + self.number(0, 9), "1e2", "")
        k = self.r.randrange(6)
        if k < 3:
            date = "".join(n() + u for u in "YMWD" if self.r.random() < 0.4)
            time = "".join(n() + u for u in "HMS" if self.r.random() < 0.4)
            return "P" + date + ("T" + time if time or self.r.random() < 0.05 else "")
        if k == 3: return f"P{self.number(0, 9999, 4)}-{self.number(0, 13, 2)}-{self.number(0, 31, 2)}" + self.pick("", f"T{self.number(0, 25, 2)}:{self.number(0, 60, 2)}:{self.number(0, 60, 2)}")
        if k == 4: return f"P{self.number(0, 99999999, 8)}" + self.pick("", f"T{self.number(0, 999999, 6)}")
        return self.pick("P1-2", "P1", "PT1", "PT1:2", "PT1:2:3.5", "P1Y2", "p1d", "P1D ", "P-1-2-3", "P1.5-2", "PT010203.5", "P1YT", "P T1H", "P1M1M")

    def q_interval(self):
        text = self.interval_text()
        k = self.r.randrange(8)
        if k < 4: return f"SELECT {quoted(text)}::interval"
        if k == 4: return f"SELECT interval {quoted(text)} {self.r.choice(self.FIELDS)}"
        if k == 5: return f"SELECT {quoted(text)}::interval {self.r.choice(self.FIELDS)}"
        if k == 6: return f"SELECT CAST({quoted(text)} AS interval({self.number(0, 6)}))"
        return f"SELECT {quoted(text)}::text::interval {self.r.choice(self.FIELDS)}"

    # --- pictures -------------------------------------------------------------------

    DATE_KEYS = ["YYYY", "YYYY", "YYY", "YY", "Y", "Y,YYY", "IYYY", "IYY", "IY", "I", "MM", "MM", "DD", "DD", "DDD", "IDDD", "D", "ID", "WW", "IW", "W", "Q", "CC", "J", "HH24", "HH12", "HH", "MI", "SS", "SSSS", "SSSSS", "MS", "US",
                 "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "AM", "P.M.", "pm", "a.m.", "BC", "A.D.", "ad", "b.c.", "MONTH", "Month", "month", "MON", "Mon", "mon", "DAY", "Day", "day", "DY", "Dy", "dy", "RM", "rm", "TZ", "tz", "TZH", "TZM", "OF",
                 "yyyy", "mm", "dd", "hh24", "mi", "ss", "Yyyy", "Mm", "q", "ww", "cc", "j", "ms", "us", "FX"]

    def date_picture(self):
        r = self.r
        out = []
        for _ in range(r.randrange(1, 6)):
            out.append(self.pick("", "", "", "FM", "TM", "fm") + r.choice(self.DATE_KEYS) + self.pick("", "", "", "", "th", "TH", "SP"))
            out.append(self.pick("", "-", " ", ":", "/", ".", ", ", "\\", '"x"', '"a\\"b"', '\\"', "T", "é", "  ", "1", '"', "|"))
        return "".join(out)

    def q_to_char(self):
        value = self.pick("timestamp '2024-02-29 13:04:05.678901'", "timestamptz '1999-12-31 23:59:59.5+00'", "timestamp '0044-03-15 00:00:00 BC'", "timestamp '2000-01-01 12:00:00'", "timestamp '12345-11-12 01:02:03'",
                          "interval '1 year 2 months 3 days 04:05:06.7'", "interval '-1 year -2 months -3 days -04:05:06.7'", "interval '12 months'", "interval '-12 months'", "interval '13 hours'", "interval '0'", "date '2021-01-03'", "timestamp '0001-01-01 00:00:00 BC'",
                          f"timestamp '{self.number(1, 3000, 4)}-{self.number(1, 12, 2)}-{self.number(1, 28, 2)} {self.number(0, 23, 2)}:{self.number(0, 59, 2)}:{self.number(0, 59, 2)}'", f"interval '{self.number(-30, 30)} months {self.number(-400, 400)} days'")
        return f"SELECT to_char({value}, {quoted(self.date_picture())})"

    READ_KEYS = {"YYYY": "{y}", "YYY": "{y3}", "YY": "{y2}", "Y": "{d1}", "Y,YYY": "{yg}", "IYYY": "{y}", "IY": "{y2}", "MM": "{m}", "DD": "{d}", "DDD": "{doy}", "IDDD": "{doy}", "D": "{d1}", "ID": "{d1}", "WW": "{w}", "IW": "{w}", "W": "{d1}", "Q": "{d1}", "CC": "{cc}",
                 "J": "{j}", "HH24": "{h}", "HH12": "{h12}", "HH": "{h12}", "MI": "{mi}", "SS": "{mi}", "SSSS": "{ss}", "MS": "{ms}", "US": "{us}", "FF1": "{d1}", "FF3": "{ms}", "FF4": "{us}", "FF6": "{us}", "AM": "{ampm}", "P.M.": "{ampm}", "pm": "{ampm}", "BC": "{era}", "a.d.": "{era}",
                 "MONTH": "{month}", "Month": "{month}", "MON": "{month}", "mon": "{month}", "DAY": "{dayname}", "Dy": "{dayname}", "RM": "{rm}", "TZH": "{tzh}", "TZM": "{mi}", "TZ": "UTC", "OF": "+00", "FX": "", "yyyy": "{y}", "mm": "{m}", "dd": "{d}"}

    def shown(self, template):
        r = self.r
        values = {"y": self.pick(self.number(1900, 2100), self.number(0, 20000), "2024", "-44", "2024"), "y3": self.number(0, 999), "y2": self.number(0, 99, 2), "yg": self.pick("2,024", "1,999", "12,345", "2024", "2, 24"), "m": self.pick(self.number(1, 12, 2), self.number(0, 14)),
                  "d": self.pick(self.number(1, 28, 2), self.number(0, 33)), "doy": self.number(0, 370, 3), "d1": self.number(0, 9), "w": self.number(0, 54, 2), "cc": self.number(-3, 22), "j": self.pick(self.number(2400000, 2500000), self.number(0, 9)), "h": self.number(0, 25, 2),
                  "h12": self.pick(self.number(1, 12), self.number(0, 13, 2)), "mi": self.number(0, 61, 2), "ss": self.number(0, 90000), "ms": self.pick(self.number(0, 999, 3), self.number(0, 99)), "us": self.pick(self.number(0, 999999, 6), self.number(0, 9999)),
                  "ampm": self.pick("AM", "PM", "p.m.", "a.m.", "xx"), "era": self.pick("BC", "AD", "b.c.", "a.d."), "month": self.pick("January", "Jan", "february", "MAR", "may", "Sept", "DECEMBER ", "xyz"), "dayname": self.pick("Monday", "tue", "SUNDAY", "Wed"),
                  "rm": self.pick("I", "iv", "VIII", "xii", "X", "XX"), "tzh": self.pick("+02", "-05", "03", "-3", "+15", "16")}
        return template.format(**values)

    def read_pair(self):
        r = self.r
        if r.random() < 0.4:
            keys = r.choice([["YYYY", "MM", "DD"], ["YYYY", "MM", "DD", "HH24", "MI", "SS"], ["DD", "MON", "YYYY"], ["IYYY", "IW", "ID"], ["IYYY", "IDDD"], ["YYYY", "DDD"], ["YYYY", "WW"], ["YYYY", "MM", "W"], ["CC", "YY"], ["YYYY", "MM", "DD", "BC"],
                             ["YYYY", "MM", "DD", "HH24", "MI", "SS", "FF4"], ["YYYY", "MM", "DD", "HH24", "TZH", "TZM"], ["YYYY", "MM", "DD", "HH12", "AM"], ["Month", "DD", "YYYY"], ["YYYY", "RM"], ["J"], ["YYYY", "Q"], ["IYYY", "MM"], ["YYYY", "YY"], ["SSSS", "HH24"]])
        else:
            keys = [r.choice(list(self.READ_KEYS)) for _ in range(r.randrange(1, 5))]
        picture, text = "", ""
        fixed = self.pick("", "", "", "", "FX")
        for key in keys:
            glue = self.pick("", "-", " ", "/", ":", "T", '"x"', "  ", ", ", ".", '"a b"', "-")
            if not picture: glue = ""
            picture += glue + self.pick("", "", "", "FM", "TM") + key + self.pick("", "", "", "", "", "th", "TH")
            seen = glue.replace('"', "") if r.random() < 0.85 else self.pick("", " ", "-", "  ", "/", "x")
            text += seen + self.shown(self.READ_KEYS[key]) + self.pick("", "", "", "", "", "th", " ")
        if r.random() < 0.06: text = text[:r.randrange(0, max(1, len(text)))]
        if r.random() < 0.06: text = " " + text
        return text, fixed + picture

    def q_to_date(self):
        text, picture = self.read_pair()
        return f"SELECT {self.pick('to_date', 'to_timestamp', 'to_timestamp')}({quoted(text)}, {quoted(picture)})"

    NUMBER_KEYS = ["9", "9", "9", "0", "0", "99", "999", "9,999", "9G999", ".", "D", "S", "MI", "PL", "SG", "PR", "L", "FM", "TH", "th", "V", "B", "RN", "rn", "EEEE", "\"x\"", "\\", "\\\"", " ", "-", "$", "SP", "Fm", "é", "C", "eeee", "\"a\\\"b\""]

    def number_picture(self):
        k = self.r.randrange(3)
        if k == 0: return "".join(self.r.choice(self.NUMBER_KEYS) for _ in range(self.r.randrange(0, 7)))
        return self.pick("", "", "FM", "S", "L", "MI", "SG") + self.pick("999", "990", "000", "9,999", "9G999G999", "99999") + self.pick("", "", ".99", "D99", ".009", "V99", ".00") + self.pick("", "", "S", "MI", "PR", "TH", "th", "PL", "\"x\"", "\\")

    def q_number_picture(self):
        value = self.pick("0", "1", "-1", "12", "-12.5", "1234.567", "-1234567.891", "0.5", "-0.001", "99999", "485", "3999", "0.1::float8", "-1.5::float8", "1e10::float8", "'NaN'::float8", "12::bigint", "1234.5::real", "(-485)")
        if self.r.random() < 0.5: return f"SELECT to_char({value}, {quoted(self.number_picture())})"
        text = self.pick("12", "-12", "12-", "<12>", "1,234.56", "1.5", "-1.5", "$12", "  12", "12 ", "+5", "1234", "12th", "-0.5", ".5", "5.", "abc", "", "1x2", "é1", "1-2", "12.34.5", "00012", "- 5", "5 -", "+", "9 9", "12+", "1e5", "123456789")
        return f"SELECT to_number({quoted(text)}, {quoted(self.number_picture())})"

    # --- format() and LIKE ---------------------------------------------------------------

    def q_format(self):
        r = self.r
        out = ""
        for _ in range(r.randrange(1, 4)):
            out += self.pick("", "a", " ", "é", "%%") + "%" + self.pick("", "", "1$", "2$", "3$", "0$", "9$", "$") + self.pick("", "", "-", "--") + self.pick("", "", "5", "0", "12", "*", "*1$", "*2$", "*0$", "*1", "-3", "99999999999") + self.pick("s", "s", "I", "L", "s", "d", "", "%")
        args = [self.pick("'abc'", "'a b'", "NULL", "3", "-4", "'O''Reilly'", "'7'", "' 7 '", "'a\\b'", "true", "1.5", "'\u00a05'") for _ in range(r.randrange(0, 4))]
        return f"SELECT format({', '.join([quoted(out)] + args)})"

    def q_like(self):
        r = self.r
        bit = lambda: "".join(self.pick("a", "b", "%", "_", "\\", "é", "!", "") for _ in range(r.randrange(0, 6)))
        escape = self.pick("", "", " ESCAPE '!'", " ESCAPE ''", " ESCAPE '\\'", " ESCAPE 'a'", " ESCAPE 'é'", " ESCAPE 'ab'", " ESCAPE '%'", " ESCAPE '_'")
        op = self.pick("LIKE", "LIKE", "ILIKE", "NOT LIKE", "SIMILAR TO", "NOT SIMILAR TO")
        pattern = bit() if "SIMILAR" not in op else self.similar()
        return f"SELECT {quoted(self.subject())} {op} {quoted(pattern)}{escape}"

    def similar(self):
        return "".join(self.pick("a", "b", "%", "_", "(a|b)", "[ab]", "[^a]", "a*", "b+", "c?", "(ab){2}", "|", ".", "^", "$", "\\d", "\\%", "!%", '\\"', "#\"", "[a-c]") for _ in range(self.r.randrange(0, 6)))

    def q_similar(self):
        pattern = self.similar()
        escape = self.pick("'\\'", "'#'", "'!'", "''", "'ab'")
        k = self.r.randrange(3)
        if k == 0: return f"SELECT substring({quoted(self.subject())} from {quoted(pattern)} for {escape})"
        if k == 1: return f"SELECT similar_to_escape({quoted(pattern)}, {escape})"
        return f"SELECT {quoted(self.subject())} SIMILAR TO {quoted(pattern)} ESCAPE {escape}"

    # --- regular expressions -----------------------------------------------------------------

    def subject(self):
        return "".join(self.pick("a", "b", "c", "ab", "abc", "x", "A", "B", " ", "1", "_", "é", "\n", "-", "aa", "bb", ".") for _ in range(self.r.randrange(0, 9)))

    def atom(self, depth):
        r = self.r
        k = r.randrange(30 if depth > 0 else 18)
        if k < 9: return r.choice("aabbccx1")
        if k == 9: return "."
        if k == 10: return self.pick("[ab]", "[^a]", "[a-c]", "[[:alpha:]]", "[^[:digit:]]", "[[:space:]]", "[]a]", "[a-]", "[\\w]", "[^\\s]", "[[.hyphen.]]", "[[=a=]]", "[a\\]b]", "[b-a]", "[[:foo:]]", "[", "[]", "[\\d-z]", "[é]", "[[.a.]-c]", "[[:upper:]]", "[[:word:]]", "[^\\n]", "[\\W]", "[[:<:]]a")
        if k == 11: return self.pick("\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\.", "\\n", "\\x61", "\\u0061", "\\e", "\\B", "\\cA", "\\101", "\\q", "\\-", "\\é", "\\0", "\\Z", "\\U00000061", "\\a")
        if k == 12: return self.pick("^", "$", "\\y", "\\Y", "\\m", "\\M", "\\A", "\\Z", "[[:<:]]", "[[:>:]]")
        if k == 13: return self.pick("é", " ", "_", "-", "A", "B", "#", "{", "}", "]", "\n")
        if k < 16: return self.pick("ab", "bc", "abc", "aa")
        if k < 18: return self.pick("\\1", "\\1", "\\2", "\\3") if r.random() < 0.6 else "b"
        if k < 26: return "(" + self.pick("", "", "", "?:") + self.pattern(depth - 1) + ")"
        if k < 28: return "(" + self.pick("?=", "?!", "?<=", "?<!") + self.pattern(depth - 1) + ")"
        return self.pick("(", ")", "()", "(?:)", "(|a)", "(?#x)", "(?", "(?>a)", "*", "+", "a**", "|", "a{2", "a{,3}")

    def pattern(self, depth):
        r = self.r
        branches = []
        for _ in range(self.pick(1, 1, 1, 2, 3)):
            text = ""
            for _ in range(r.randrange(0 if r.random() < 0.1 else 1, 4)):
                text += self.atom(depth) + self.pick("", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}?", "{1,}", "{2}?", "{1,1}?", "{0}", "{0,}", "{3,2}", "{256}")
            branches.append(text)
        return "|".join(branches)

    def flags(self):
        return "".join(self.r.choice("iiccnmpqswxtegbg") for _ in range(self.pick(0, 0, 1, 1, 2, 3))) if self.r.random() < 0.9 else self.pick("z", "gi", "ig", "G", "1")

    def q_regexp(self):
        r = self.r
        pattern = self.pattern(2)
        if r.random() < 0.06: pattern = self.pick("***:", "***=", "***", "(?i)", "(?n)", "(?x) ", "(?q)", "(?b)", "(?e)", "(?c)", "(?iw)", "(?z)", "***?") + pattern
        s, p, f = quoted(self.subject()), quoted(pattern), quoted(self.flags())
        start, n = self.pick("1", "1", "2", "3", "5", "0", "-1", "20"), self.pick("1", "1", "2", "3", "0", "-1")
        new = quoted(self.pick("X", "<\\1>", "\\&\\&", "\\2\\1", "\\\\", "\\x", "", "[\\3]", "\\"))
        k = r.randrange(24)
        if k < 4: return f"SELECT regexp_match({s}, {p})"
        if k < 6: return f"SELECT regexp_match({s}, {p}, {f})"
        if k < 9: return f"SELECT regexp_replace({s}, {p}, {new}, 'g')"
        if k == 9: return f"SELECT regexp_replace({s}, {p}, {new}, {f})"
        if k == 10: return f"SELECT regexp_replace({s}, {p}, {new}, {start}, {n}, {f})"
        if k == 11: return f"SELECT {s} {self.pick('~', '!~', '~*', '!~*')} {p}"
        if k == 12: return f"SELECT substring({s} from {p})"
        if k == 13: return f"SELECT regexp_count({s}, {p}, {start}, {f})"
        if k == 14: return f"SELECT regexp_instr({s}, {p}, {start}, {n}, {self.pick('0', '1', '2')}, {f}, {self.pick('0', '1', '2', '-1')})"
        if k == 15: return f"SELECT regexp_substr({s}, {p}, {start}, {n}, {f}, {self.pick('0', '1', '2', '-1')})"
        if k == 16: return f"SELECT regexp_split_to_array({s}, {p}, {f})"
        if k == 17: return f"SELECT regexp_split_to_array({s}, {p})"
        if k == 18: return f"SELECT regexp_like({s}, {p}, {f})"
        if k == 19: return f"SELECT * FROM regexp_matches({s}, {p}, {f}) AS m"
        if k == 20: return f"SELECT regexp_split_to_table({s}, {p})"
        if k == 21: return f"SELECT regexp_matches({s}, {p}, 'g')"
        if k == 22: return f"SELECT regexp_count({s}, {p}), regexp_instr({s}, {p}), regexp_substr({s}, {p})"
        return f"SELECT regexp_matches({s}, {p}, 'g' || {f})"

    # --- blanks -----------------------------------------------------------------------------

    def q_blanks(self):
        b = lambda: "".join(self.pick("", "", " ", "\t", "\n", "\v", "\f", "\r", "\u00a0", "\u2003", "\u3000", "\x1f", "\u0085") for _ in range(2))
        value, kind = self.pick(("12", "int"), ("1.5", "numeric"), ("1.5", "float8"), ("true", "boolean"), ("2024-01-02", "date"), ("1 day", "interval"), ("10:00", "time"), ("{1,2}", "int[]"), ("{a,b}", "text[]"), ("{ a , b }", "text[]"), ("[1:2]={1,2}", "int[]"),
                                ("00000000-0000-0000-0000-000000000001", "uuid"), ("\\x00ff", "bytea"), ("5", "bigint"), ("5", "oid"), ("abc", "name"), ("pg_class", "regclass"), ("integer", "regtype"), ("1 2 3", "int2vector"), ("2024-01-02 03:04:05", "timestamp"), ("{{1,2},{3,4}}", "int[]"))
        if value.startswith("{") or value.startswith("["):
            value = "".join(b() + c if c in "{},=" else c for c in value)
        if kind == "int2vector": value = value.replace(" ", b() or " ")
        text = b() + value + b()
        k = self.r.randrange(6)
        if k == 0: return f"SELECT '<' || {self.pick('trim', 'ltrim', 'rtrim', 'btrim')}({quoted(text)}) || '>'"
        if k == 1: return f"SELECT {self.pick('upper', 'lower', 'initcap')}({quoted(self.subject() + b() + self.subject())})"
        return f"SELECT {quoted(text)}::{kind}"

    # --- arrays and numbers -------------------------------------------------------------------

    def braces(self, depth):
        r = self.r
        if depth == 0 or r.random() < 0.15:
            return self.pick("1", "2", "a", "NULL", '"b"', '"a b"', "", " 1 ", "a b", '"\\""', "\\{", '"', "-1", '""', "\\", "1.5")
        count = self.pick(0, 1, 2, 2, 2, 3)
        return "{" + ",".join(self.pick("", "", "", " ") + self.braces(depth - 1 if r.random() < 0.9 else 0) + self.pick("", "", "", " ") for _ in range(count)) + "}"

    def q_arrays(self):
        r = self.r
        text = self.braces(self.pick(1, 1, 2, 2, 3, 7))
        if r.random() < 0.4:
            number = lambda: self.pick("0", "1", "1", "2", "2", "3", "-1", "+1", "", " 1", "2147483647", "2147483648", "a", "1-")
            bounds = "".join(self.pick("", "", " ") + "[" + self.pick(number(), f"{number()}:{number()}", f"1:{number()}", f"1:{number()}") + "]" for _ in range(self.pick(1, 1, 2, 7)))
            text = bounds + self.pick("=", "=", "=", " = ", "", "==") + text
        if r.random() < 0.15:
            at = r.randrange(len(text) + 1)
            text = text[:at] + self.pick("{", "}", ",", '"', "\\", " ", "x", "[", "=") + text[at + r.randrange(2):]
        value = f"{quoted(text)}::{self.pick('int[]', 'text[]', 'text[]', 'numeric[]', 'date[]', 'int2vector[]')}"
        return self.pick(f"SELECT {value}", f"SELECT {value}", f"SELECT array_dims({value}), cardinality({value})", f"SELECT ({value})[{r.randrange(4)}], ({value})[1][{r.randrange(3)}]", f"SELECT {value} || '{{1}}', {value} = {value}",
                         f"SELECT array_to_string({value}, ',', '*'), array_upper({value}, 1), array_lower({value}, 2)", f"SELECT * FROM unnest({value})")

    def q_numbers(self):
        r = self.r
        k = r.randrange(4)
        if k < 2: text = self.pick("", "", "-", "+", "--") + self.pick(self.number(0, 99), self.number(0, 99999), "0", "00", "", "32767", "32768", "2147483648", "9223372036854775807", "9223372036854775808") + self.pick("", "", ".", "." + self.number(0, 999), ".0") + self.pick("", "", "", "e" + self.number(0, 12), "E-" + self.number(0, 9), "e+3", "e", "e+", "e1.5")
        elif k == 2: text = self.pick("infinit", "nam", "0x10", "0b1", "0o7", "1_000", "1,000", "1d", "1f", "1e5x", ".", "-.", "e5", "1 2", "--1", "+-1", "t", "yes", "of", "OFF", "tru", "f ", "y\u00e9s", "\uff11")
        else: text = "".join(self.pick("1", "0", ".", "e", "-", "+", " ", "9", "5") for _ in range(r.randrange(1, 7)))
        if r.random() < 0.2: text = self.pick(" ", "\t", "\n", "\u00a0") + text + self.pick(" ", "", "\r", "\u3000")
        return f"SELECT {quoted(text)}::{self.pick('int', 'smallint', 'bigint', 'numeric', 'numeric', 'numeric(5,2)', 'float8', 'boolean', 'oid')}"

    KINDS = {"arrays": ["q_arrays"], "numbers": ["q_numbers"], "datetime": ["q_datetime", "q_datetime", "q_datetime", "q_zone"], "interval": ["q_interval"], "to_char": ["q_to_char"], "to_date": ["q_to_date"], "number": ["q_number_picture"],
             "format": ["q_format", "q_like", "q_similar"], "regexp": ["q_regexp"], "blanks": ["q_blanks"]}

    def statement(self, kind=None):
        kind = kind or self.r.choice(list(self.KINDS))
        return getattr(self, self.r.choice(self.KINDS[kind]))()
