import Broker
import Testing

@testable import BrokerProviders

@Suite("Lifetimes in the form of real servers", .timeLimit(.minutes(2)))
struct LifetimeTests {
    private let now = WallTime(seconds: 1_800_000_000)

    @Test(
        "A token's lifetime is zero, negative, a time in the past or not a number → the lifetime counts as unknown (SEC-21)",
        arguments: [
            "null", "0", "-1", "-1e300", "\"\"", "\"soon\"", "\"0\"", "true", "[]", "{}", "0.5", "\"NaN\"", "\"inf\"",
            "1500000000", "\"-5\"",
        ])
    func none(_ json: String) throws {
        let value = try JSONParser.parse(Array(json.utf8), maximumBytes: 100).value
        #expect(Lifetime.end(value, unit: .seconds, now: now) == nil)
        #expect(Lifetime.end(nil, unit: .seconds, now: now) == nil)
    }

    @Test(
        "A token's lifetime is a number, a text or a time in the future → this lifetime, but at most 400 days (SEC-21)",
        arguments: [
            ("3600", 3600), ("\"3600\"", 3600), ("1.5", 1), ("3599.999", 3599), ("1e3", 1000), ("864000", 864_000),
            ("9223372036854775807", 400 * 86_400), ("9223372036854775808", 400 * 86_400), ("1e300", 400 * 86_400),
            ("999999999", 400 * 86_400), ("1800003600", 3600), ("1800003600000", 3600),
        ] as [(String, Int64)])
    func seconds(_ json: String, _ expected: Int64) throws {
        let value = try JSONParser.parse(Array(json.utf8), maximumBytes: 100).value
        #expect(Lifetime.end(value, unit: .seconds, now: now) == WallTime(seconds: now.seconds + expected))
    }

    @Test(
        "A token's expiry time is now, in the past or negative → no known lifetime",
        arguments: ["1", "1799999999", "1800000000", "-5", "1e-300"])
    func pastMoments(_ json: String) throws {
        let value = try JSONParser.parse(Array(json.utf8), maximumBytes: 100).value
        #expect(Lifetime.end(value, unit: .epochSeconds, now: now) == nil)
    }

    @Test(
        "A token's expiry time is in the future, in seconds or milliseconds → this time, but at most 400 days from now")
    func moments() {
        func end(_ text: String) -> WallTime? { Lifetime.end(.number(text), unit: .epochSeconds, now: now) }
        #expect(end("1800000060") == WallTime(seconds: 1_800_000_060))
        #expect(end("1800000060000") == WallTime(seconds: 1_800_000_060))
        #expect(end("99999999999") == WallTime(seconds: now.seconds + Lifetime.longest))
    }
}
