import Testing

@testable import coatcheck

@Suite("Durations, sizes, addresses and secrets of the file", .timeLimit(.minutes(2)))
struct ScalarTests {
    @Test(
        "Text that is not a duration → refused",
        arguments: [
            "", " ", "30", "d", "30 d d", "-1s", "+1s", "1.5h", "1s 1m", "1s1s", "1S", "1s ", "٣s", "0x1s",
            "99999999999999999999s",
        ])
    func notDuration(_ text: String) { #expect(DurationText.parse(text) == nil) }

    @Test(
        "A duration such as `1h 30m` → its milliseconds",
        arguments: [
            ("30d", 2_592_000_000), ("12h", 43_200_000), ("15m", 900_000), ("60s", 60_000), ("500ms", 500),
            ("1h 30m", 5_400_000), ("1h30m", 5_400_000), ("0s", 0),
        ])
    func duration(_ text: String, _ milliseconds: Int) {
        #expect(DurationText.parse(text) == .milliseconds(milliseconds))
    }

    @Test(
        "Text that is not a size → refused",
        arguments: ["", "64", "KiB", "64KB", "64kib", "-1KiB", "1.5MiB", "9223372036854775807KiB"])
    func notSize(_ text: String) { #expect(SizeText.parse(text) == nil) }

    @Test(
        "A size such as `64KiB` → its bytes, and the same bytes after it was written and read again",
        arguments: [("64KiB", 65_536), ("1MiB", 1_048_576), ("1GiB", 1_073_741_824), ("5B", 5), ("1 MiB", 1_048_576)])
    func size(_ text: String, _ bytes: Int) {
        #expect(SizeText.parse(text) == bytes)
        #expect(SizeText.parse(SizeText.write(bytes)) == bytes)
    }

    @Test(
        "Text that is not a listening address → refused",
        arguments: [
            "", ":80", "a", "a:", "a:-1", "a:65536", "::1:80", "[]:80", "[a]:80", "a/b:80", "u@h:80", "h:80:90",
        ])
    func notListen(_ text: String) { #expect(ListenAddress(text) == nil) }

    @Test(
        "An address and port to listen on → parsed and printed unchanged",
        arguments: ["127.0.0.1:0", "0.0.0.0:8080", "[::1]:9090", "localhost:1"])
    func listen(_ text: String) { #expect(ListenAddress(text)?.description == text) }

    @Test(
        "A short, repetitive or well-known secret, or a placeholder → recognised as weak",
        arguments: [
            "", "short", "changeme", "password1234", "secretsecretsecret", "your-client-secret-here",
            "<client-secret-from-console>", "REPLACE_ME_WITH_SECRET", "aaaaaaaaaaaaaaaaaaaaaaaa", "1234567890123456",
            "xxxxxxxxxxxxxxxxxxxx", "ChangeMeChangeMe",
        ])
    func weak(_ text: String) { #expect(WeakSecret.fault(of: text) != nil) }

    @Test(
        "A secret is as random as those of real providers → accepted",
        arguments: [
            "zQ8vN2kLr5TwX7yB3mHd", "9c1185a5c5e9fc54612808977ee8f548", "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",
            "sandbox-web-client-51f0c2d7",
        ])
    func strong(_ text: String) { #expect(WeakSecret.fault(of: text) == nil) }

    @Test("Malformed hexadecimal → refused (SEC-110)", arguments: ["", "a", "abc", "zz", "0x00", "a b"])
    func notHexadecimal(_ text: String) { #expect(Hexadecimal.decode(text) == nil) }
}
