import Testing

@testable import BrokerProviders

@Suite("URLs that the broker may call", .timeLimit(.minutes(2)))
struct EndpointURLTests {
    @Test(
        "Plain http beyond loopback, credentials, fragments or other schemes in a URL → refused (SEC-17, SEC-24)",
        arguments: [
            "http://id.example.com/token", "https://user:pw@id.example.com/", "https://id.example.com/#x", "ftp://a.b/",
            "https:///x", "https://id.example.com/a b", "https://id.example.com/?q=\"", "id.example.com", "",
            "https://id.example.com/\r\nX: y", "http://127.0.0.1.example.com/", "https://exa\u{6d}ple.com/é",
        ])
    func refuses(_ text: String) { #expect(EndpointURL(text) == nil) }

    @Test(
        "A URL with https, or with http on loopback → accepted",
        arguments: [
            "https://id.example.com/token", "https://id.example.com:8443/t?x=1", "http://127.0.0.1:8089/t",
            "http://localhost/", "http://[::1]:1/",
        ])
    func allows(_ text: String) { #expect(EndpointURL(text) != nil) }

    @Test(
        "Parameters for an endpoint with a query → added to the query; the query already has one of them → refused (SEC-07)"
    )
    func adds() throws {
        let plain = try #require(EndpointURL("https://a.example/auth"))
        #expect(plain.adding([("a", "1 2"), ("b", "&")])?.text == "https://a.example/auth?a=1%202&b=%26")
        let queried = try #require(EndpointURL("https://a.example/auth?tenant=x"))
        #expect(queried.adding([("a", "1")])?.text == "https://a.example/auth?tenant=x&a=1")
        #expect(queried.adding([("tenant", "y")]) == nil)
    }
}
