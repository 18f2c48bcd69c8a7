import Testing

@testable import BrokerRelay

@Suite("Allow-lists (SEC-71, SEC-73)", .timeLimit(.minutes(2)))
struct AllowListTests {
    @Test(
        "A call's path has `employees`, or its `expand` has `employee` → a call about employees; any other call → not about them",
        arguments: [
            ("/v3/merchants/M1/employees", nil, true), ("/v3/merchants/M1/Employees/E1", nil, true),
            ("/v3/merchants/M1/orders", "expand=employee", true),
            ("/v3/merchants/M1/orders", "a=1&expand=lineItems,employee.x", true),
            ("/v3/merchants/M1/orders", "%65xpand=%65mployees", true), ("/v3/merchants/M1/orders", "expand=%zz", true),
            ("/v3/merchants/M1/orders", "expand=lineItems", false),
            ("/v3/merchants/M1/orders", "filter=employee", false),
            ("/v3/merchants/M1/employees-of-the-month", nil, false), ("/v3/merchants/M1", nil, false),
        ] as [(String, String?, Bool)])
    func employees(_ path: String, _ query: String?, _ concerns: Bool) throws {
        #expect(EmployeeRules.concerns(path: try CanonicalPath(path[...]), query: query.map { $0[...] }) == concerns)
    }

    @Test(
        "An `allow` entry that is malformed, or that two programs could read differently → refused",
        arguments: [
            "", "GET", "GET ", " /a", "GET  /a", "GET /a b", "GET a", "get /a", "GET,,POST /a", "GET, POST /a",
            "G3T /a",
            "GET,ANY /a", "CONNECT /a", "TRACE /a", "GET,TRACE /a", "GET /a/**/b", "GET /a*", "GET /***", "GET /a//b",
            "GET /a/../b", "GET /%2e%2e", "GET /a;b", "GET /a%2fb", "GET //", "GET /é", "GET /a?b", "GET http://x/a",
        ])
    func badEntry(text: String) {
        #expect(throws: UpstreamFault.self) { try AllowEntry(text) }
    }

    @Test(
        "A call whose method or path differs from the only `allow` entry → not allowed",
        arguments: [
            ("GET /v1/**", "POST", "/v1/x"), ("GET /v1/**", "get", "/v1/x"), ("GET /v1/**", "HEAD", "/v1/x"),
            ("GET /v1/**", "GET", "/v1"), ("GET /v1/**", "GET", "/v10/x"), ("GET /v1/**", "GET", "/V1/x"),
            ("GET /v1", "GET", "/v1/"), ("GET /v1/", "GET", "/v1"), ("GET /v1", "GET", "/v1/x"),
            ("GET /v1/*", "GET", "/v1/"), ("GET /v1/*", "GET", "/v1/a/b"), ("GET /v1/*", "GET", "/v1"),
            ("GET /v1/*/x", "GET", "/v1/a/y"), ("GET /v1/*/x", "GET", "/v1/a/x/"), ("GET /*", "GET", "/"),
            ("GET /", "GET", "/a"), ("POST,PUT /a", "PATCH", "/a"), ("GET /a%20b", "GET", "/a"),
        ])
    func notAllowed(entry: String, method: String, path: String) throws {
        let list = AllowList([try AllowEntry(entry)])
        #expect(!list.allows(method: method, path: try CanonicalPath(path[...])))
    }

    @Test(
        "A call whose method and path match an `allow` entry → allowed",
        arguments: [
            ("GET /v1/**", "GET", "/v1/x"), ("GET /v1/**", "GET", "/v1/"), ("GET /v1/**", "GET", "/v1/x/y/"),
            ("ANY /**", "DELETE", "/"), ("ANY /**", "PROPFIND", "/a/b"), ("GET /*", "GET", "/a"),
            ("POST,PUT /a", "PUT", "/a"), ("GET /v1/*/x", "GET", "/v1/a/x"), ("GET /v1/*/**", "GET", "/v1/a/b/c"),
            ("GET /caf%c3%a9", "GET", "/caf%C3%A9"), ("GET /%41", "GET", "/A"), ("M-SEARCH /a", "M-SEARCH", "/a"),
            ("GET /", "GET", "/"), ("GET /a/", "GET", "/a/"),
        ])
    func allowed(entry: String, method: String, path: String) throws {
        let list = AllowList([try AllowEntry(entry)])
        #expect(list.allows(method: method, path: try CanonicalPath(path[...])))
    }

    @Test("A path that two servers could read differently → refused, unless its canonical form is in the `allow` list")
    func tricks() throws {
        let list = AllowList([try AllowEntry("GET /v1/me"), try AllowEntry("GET /v1/files/**")])
        for (trick, _) in CanonicalPathTests.tricks {
            for raw in ["/v1/files" + trick, "/v1/files" + trick + "/admin", "/v1" + trick + "/../admin"] {
                guard let path = try? CanonicalPath(raw[...]), list.allows(method: "GET", path: path) else { continue }
                #expect(path.text == "/v1/me" || path.text.hasPrefix("/v1/files/"))
                #expect(!path.text.contains("..") && !path.text.contains("//"))
            }
        }
        #expect(list.allows(method: "GET", path: try CanonicalPath("/v1/%6D%65")))
    }

    @Test("An empty `allow` list → no call is allowed")
    func empty() throws { #expect(!AllowList([]).allows(method: "GET", path: try CanonicalPath("/"))) }
}
