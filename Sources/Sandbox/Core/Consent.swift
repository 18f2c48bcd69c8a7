import Hummingbird

/// The consent page, with a user selector and the buttons Allow and Deny; it contains no scripts.
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
