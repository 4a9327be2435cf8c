"""Zones, and the styles in which dates and intervals are read and written, drawn at
random. fuzz.py runs them (`--kind zones`)."""
import random

import texts

# Values of the setting `timezone`: names, abbreviations, POSIX rules, numbers; right and wrong ones.
SETTINGS = ["'UTC'", "'GMT'", "'Europe/Berlin'", "'europe/berlin'", "'America/New_York'", "'Asia/Kolkata'", "'America/St_Johns'", "'Australia/Lord_Howe'", "'Pacific/Apia'", "'Africa/Monrovia'", "'Europe/Dublin'",
            "'Etc/GMT+5'", "'EST5EDT'", "'EST'", "'PST'", "'CET'", "'MET'", "'CEST'", "'MSK'", "'BST'", "'Z'", "'zulu'", "'+02:00'", "'-03:30'", "'+5'", "'5'", "'-5'", "'5.5'", "5.5", "-5", "3", "0", "'<+03>-03'", "'<-0330>3:30'",
            "'FOO3'", "'FOO-3'", "'FOO+3:15'", "'FOO3BAR'", "'FOO3BAR,M3.2.0,M11.1.0'", "'FOO3BAR2,M3.5.0/1,M10.5.0/3'", "'<A B>3'", "'FO3'", "'FOO'", "'F3'", "'UTC+3'", "'UTC-3'", "'GMT0'", "'posixrules'", "'Factory'", "'167'", "'168'", "168",
            "'169'", "-168", "''", "' UTC'", "'UTC '", "'+02:00:15'", "'+25:00'", "'FOO24'", "'FOO167'", "'FOO168'", "INTERVAL '+02:00' HOUR TO MINUTE", "INTERVAL '-3 hours'", "INTERVAL '1 month'", "LOCAL", "DEFAULT", "'posix/Europe/Berlin'", "':UTC'", "':FOO3'",
            "'US/Eastern'", "'Europe/../UTC'", "'EST5EDT4'", "'FOO+3BAR+2,J60,J300'", "'FOO+3BAR+2,59,299/2:30'", "'FOO+3BAR+2,M13.1.0,M11.1.0'", "'Nosuch'", "'Nosuch/Zone'", "'epoch'", "'infinity'"]
# A style that is not supported would make all later answers differ.
DATE_STYLES = ["ISO", "'ISO, MDY'", "MDY", "'US'", "'mdy,iso'", "DEFAULT", "'nosuch'", "''", "'iso,'", "'ISO DMY'"]
INTERVAL_STYLES = ["postgres", "'POSTGRES'", "DEFAULT", "nosuch", "1"]
INSTANTS = ["2024-02-29 10:20:30.5+00", "2024-07-01 12:00:00+00", "2024-03-31 01:30:00+00", "2024-10-27 00:30:00+00", "2024-10-27 01:30:00+00", "2024-03-10 07:00:00+00", "2024-11-03 05:30:00+00", "1999-12-31 23:59:59.999999+00",
            "1883-11-18 12:00:00+00", "1900-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC", "2037-07-01 00:00:00+00", "2050-07-01 00:00:00+00", "12024-01-01 00:00:00+00", "1972-01-07 00:30:00+00", "2011-12-30 12:00:00+00", "infinity", "-infinity",
            "1970-01-01 00:00:00+00", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC"]
LOCALS = ["2024-02-29 10:20:30.5", "2024-07-01 12:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-03-10 02:30:00", "2024-11-03 01:30:00", "1999-12-31 23:59:59.999999", "1883-11-18 12:00:00", "0044-03-15 00:00:00 BC", "2050-07-01 00:00:00",
          "2011-12-30 12:00:00", "infinity", "294276-12-31 23:59:59"]
INTERVALS = ["1 year 2 months", "1 mon -1 day", "-1 year -2 mons +3 days -04:05:06", "1 day 02:03:04.5", "-1 day", "0", "-00:00:01", "1 year", "2 days -1 hour", "36:00:00", "-1.5 seconds", "1 year 1 day 1 hour", "00:00:00.000001", "-25 months", "1 mon 1 us",
             "178000000 years", "-1 mon +1 day", "1 day -0.5 sec"]
FIELDS = ["century", "day", "decade", "dow", "doy", "epoch", "hour", "isodow", "isoyear", "julian", "microseconds", "millennium", "milliseconds", "minute", "month", "quarter", "second", "timezone", "timezone_hour", "timezone_minute", "timezone_m",
          "week", "year", "years", "mons", "hrs", "msec", "usec", "ms", "us", "d", "y", "c", "mil", "j", "jd", "qtr", "nosuch", "epochs", "dayofweek"]
UNITS = ["microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium", "isoyear", "dow", "nosuch", "mons", "hrs"]


class Zones:
    def __init__(self, seed):
        self.r = random.Random(f"zones {seed}")
        self.texts = texts.Texts(seed)

    def pick(self, *choices):
        return self.r.choice(choices)

    def zone(self):
        return self.pick(texts.quoted(self.r.choice(texts.ZONES)), *[z for z in SETTINGS if z.startswith("'")], f"interval '{self.pick('+02:00', '-3 hours', '90 min', '1 day', '1 month', '25 hours', '02:03:04')}'")

    def setting(self):
        k = self.r.randrange(6)
        if k < 3: return f"SET {self.pick('timezone = ', 'TimeZone TO ', 'TIME ZONE ', 'TIME ZONE ')}{self.r.choice(SETTINGS)}"
        if k == 3: return f"SELECT set_config('timezone', {self.pick(*[z for z in SETTINGS if z.startswith(chr(39))])}, false)"
        if k == 4: return f"SET datestyle = {self.r.choice(DATE_STYLES)}"
        return f"SET intervalstyle = {self.r.choice(INTERVAL_STYLES)}"

    def instant(self):
        return f"timestamptz '{self.r.choice(INSTANTS)}'"

    def local(self):
        return f"timestamp '{self.r.choice(LOCALS)}'"

    def interval(self):
        return f"interval '{self.r.choice(INTERVALS)}'"

    def any(self):
        return self.pick(self.instant(), self.instant(), self.local(), self.interval(), f"date '{self.pick('2024-02-29', '0044-03-15 BC', '1999-12-31', 'infinity', '2021-01-03')}'", f"time '{self.pick('10:20:30.5', '24:00', '00:00')}'")

    def expression(self):
        k = self.r.randrange(22)
        field, unit = self.r.choice(FIELDS), self.r.choice(UNITS)
        if k < 3: return f"{self.instant()}, {self.local()}, {self.interval()}, date '2024-02-29'"
        if k == 3: return f"to_char({self.instant()}, 'TZ|tz|OF|TZH|TZM|TZH:TZM|HH24:MI:SS')"
        if k == 4: return f"{self.instant()} AT TIME ZONE {self.zone()}"
        if k == 5: return f"{self.local()} AT TIME ZONE {self.zone()}"
        if k == 6: return f"timezone({self.zone()}, {self.pick(self.instant(), self.local())})"
        if k == 7: return f"extract({field} from {self.any()})"
        if k == 8: return f"date_part('{field}', {self.any()})"
        if k == 9: return f"date_trunc('{unit}', {self.any()})"
        if k == 10: return f"date_trunc('{unit}', {self.instant()}, {self.zone()})"
        if k == 11: return f"{self.instant()} {self.pick('+', '-')} {self.interval()}"
        if k == 12: return f"{self.local()}::timestamptz, {self.instant()}::timestamp, {self.instant()}::date, {self.instant()}::time"
        if k == 13: return f"age({self.pick(self.instant() + ', ' + self.instant(), self.local() + ', ' + self.local())})"
        if k == 14: return f"make_timestamptz({self.pick('2024', '-44', '0', '1', '2050')}, {self.pick('1', '7', '13', '0')}, {self.pick('1', '31', '27')}, {self.pick('2', '0', '24', '25')}, {self.pick('30', '60')}, {self.pick('0', '59.5', '60', '61', '-1')}{self.pick('', ', ' + self.zone())})"
        if k == 15: return f"date_bin({self.interval()}, {self.pick(self.instant() + ', ' + self.instant(), self.local() + ', ' + self.local())})"
        if k == 16: return f"({self.pick(self.instant(), self.local())}, {self.pick(self.interval(), self.instant(), self.local())}) OVERLAPS ({self.pick(self.instant(), self.local())}, {self.pick(self.interval(), self.instant(), self.local())})"
        if k == 17: return f"{self.pick('justify_hours', 'justify_days', 'justify_interval', '-', 'abs')}({self.interval()})"
        if k == 18: return f"{self.interval()} {self.pick('*', '/')} {self.pick('2', '0.3', '-1.5', '0', '1e10')}"
        if k == 19: return f"{self.pick('current_setting', 'current_setting')}('{self.pick('timezone', 'datestyle', 'intervalstyle')}')"
        if k == 20: return f"make_interval({self.pick('1', '0, -14, 0, 0, 30', '0, 0, 0, 0, 0, 0, 1e10', '0, 0, 0, 0, 0, 0, -0.0000005')})"
        return f"{self.any()}::text"

    def statement(self):
        k = self.r.random()
        if k < 0.2: return self.setting()
        if k < 0.25: return f"SHOW {self.pick('timezone', 'TIME ZONE', 'datestyle', 'intervalstyle')}"
        if k < 0.4: return self.texts.q_datetime()
        if k < 0.5: return self.texts.q_interval()
        return f"SELECT {self.expression()}"

    def statements(self, count):
        for _ in range(count):
            yield self.statement()
        yield "RESET ALL"
