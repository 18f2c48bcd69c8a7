import Broker
import NIOHTTP1
import Testing

@testable import BrokerProviders

@Suite("The characters that a token may contain", .timeLimit(.minutes(2)))
struct TokenTextTests {
    private func tokens(_ access: String, _ refresh: String) -> TokenSet? {
        let body = #"{"access_token":"\#(access)","refresh_token":"\#(refresh)","token_type":"Bearer"}"#
        let answer = ProviderAnswer(
            status: 200, headers: HTTPHeaders([("Content-Type", "application/json")]), body: Array(body.utf8),
            fault: nil)
        let parser = TokenAnswer(settings: TokenResponseSettings(), scopeSeparator: " ", keepsRefreshToken: true)
        return try? parser.read(answer, now: WallTime(seconds: 1_800_000_000))
    }

    @Test(
        "A space, a control character or a non-ASCII byte in a token → refused, and the log names the byte (SEC-20)",
        arguments: [
            "a b", " a", "a ", #"a\r\nX: y"#, #"a\u0000"#, #"a\tb"#, #"a\u007f"#, "é", #"a\u00a0"#, #"a\ud83d\ude00"#,
        ])
    func refused(_ text: String) {
        #expect(
            tokens(text, "rt-1")?.refusal?.hasPrefix("token answer: no usable access token: it has the byte") == true)
        #expect(
            tokens("at-1", text)?.refusal?.hasPrefix("token answer: no usable refresh_token: it has the byte") == true)
    }

    @Test(
        "Any visible ASCII character in a token → accepted, byte for byte",
        arguments: [
            "00D5g000004!AQ8AQH.x_Y", "act.e1c2!5208.u1", "Atza|IwEBIA-x", "v^1.1#i^1#f^0#r^1#p^3#t^H4s==",
            "2/1201:abc",
            "1234567890|abcDEF", #"!#$%&'()*+,-./:;<=>?@[]^_`{|}~"#, "a=b", "==",
        ])
    func accepted(_ text: String) throws {
        let set = try #require(tokens(text, text))
        #expect(set.refusal == nil)
        #expect(set.accessToken.reveal() == text && set.refreshToken?.reveal() == text)
    }
}
