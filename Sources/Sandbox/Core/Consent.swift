import Hummingbird

/// The consent page: a user selector, Allow and Deny, and no script.
enum Consent {
    static let people = ["ana", "ben", "cleo", "new", "taken", "blocked"]

    static func page(_ call: Call, clientID: String, scope: String) -> Response {
        let action = (call.path + "?" + call.query).htmlEscaped
        let options = people.map { name in
            let user = call.state.user(name)
            return "<option value=\"\(name)\">\((user["name"] ?? name).htmlEscaped)"
                + " (\((user["email"] ?? "no e-mail").htmlEscaped))</option>"
        }
        return .page(
            "Sandbox: \(call.provider.name)",
            """
            <p><b>\(clientID.htmlEscaped)</b> asks for: \(scope.isEmpty ? "(nothing named)" : scope.htmlEscaped)</p>
            <form method="post" action="\(action)">
            <p><label>Sign in as <select name="user">\(options.joined())</select></label></p>
            <p><button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></p>
            </form>
            """)
    }
}

/// The `form_post` response mode (OAuth 2.0 Form Post Response Mode).
enum FormPost {
    static func answer(_ back: Pairs, to target: String, asJSON: Bool) -> Response {
        if asJSON {
            return .json([
                "action": .string(target), "body": .string(back.encoded),
                "fields": .object(back.all.map { .init(name: $0.name, value: .string($0.value)) }),
            ])
        }
        let inputs = back.all.map {
            "<input type=\"hidden\" name=\"\($0.name.htmlEscaped)\" value=\"\($0.value.htmlEscaped)\">"
        }
        return .page(
            "Continue",
            "<form method=\"post\" action=\"\(target.htmlEscaped)\">\(inputs.joined())<button>Continue</button></form>")
    }
}

/// The page at `/`.
enum Index {
    static func page(baseURL: String) -> Response {
        let rows = Catalogue.providers.map { provider in
            "<li>\(provider.name): \(provider.prefixes.map { (baseURL + "/" + $0).htmlEscaped }.joined(separator: ", "))</li>"
        }
        return .page(
            "coatcheck-sandbox", "<ul>\(rows.joined())</ul><p>Control: \((baseURL + "/_sandbox/").htmlEscaped)</p>")
    }
}
