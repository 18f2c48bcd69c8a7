/// The curl line that repeats a request, with shell variables for its secrets.
struct CurlLine: Sendable {
    /// The value that the line extracts from the answer, for later lines.
    enum Capture: Sendable {
        case nothing
        /// The address that the browser opens, in the variable `$URL`.
        case authorizationURL
        /// The app's address to which the provider redirects, in the variable `$CALLBACK`.
        case callback
        /// The address that the web view opens, in the variable `$URL`.
        case handover
        /// The `state_key` of a registration, in the variable `$KEY`.
        case stateKey
    }

    var method = "GET"
    /// The shell variable for the base URL, `BROKER` or `SANDBOX`; empty if the target is itself a variable.
    var base: String
    /// The path and query, or a variable with a whole URL.
    var target: String
    var headers: [(String, String)] = []
    var body: [UInt8] = []
    /// The file for cookies; nil if the request sends no cookies.
    var jar: String?
    /// Whether the answer is an event stream.
    var streams = false
    var capture = Capture.nothing

    /// The text of the line.
    var text: String {
        var words = ["curl"]
        switch capture {
        case .nothing: words.append(streams ? "-sN" : "-si")
        case .authorizationURL, .handover, .stateKey: words.append("-s")
        case .callback: words += ["-s -o /dev/null -L --max-redirs 5 --proto-redir =http -D -"]
        }
        if let jar { words.append("-b \(jar) -c \(jar)") }
        if method != "GET", method != "POST" || body.isEmpty { words.append("-X " + method) }
        for (name, value) in headers { if let word = Self.header(name, value) { words.append("-H " + word) } }
        words += bodyWords
        words.append(base.isEmpty ? "\"" + target + "\"" : Self.address(base, target))
        let line = words.joined(separator: " ")
        switch capture {
        case .nothing: return line
        case .authorizationURL: return "URL=$(\(line) | sed -E 's/.*\"authorization_url\":\"([^\"]*)\".*/\\1/')"
        case .handover: return "URL=$(\(line) | sed -E 's/.*\"url\":\"([^\"]*)\".*/\\1/')"
        case .callback: return "CALLBACK=$(\(line) | tr -d '\\r' | sed -nE 's/^[Ll]ocation: //p' | tail -1)"
        case .stateKey: return "KEY=$(\(line) | sed -E 's/.*\"state_key\":\"([^\"]*)\".*/\\1/')"
        }
    }

    private var contentType: String {
        headers.first { $0.0.lowercased() == "content-type" }?.1.lowercased() ?? ""
    }

    private var bodyWords: [String] {
        guard !body.isEmpty else { return [] }
        let text = String(decoding: body, as: UTF8.self)
        if contentType.hasPrefix("application/x-www-form-urlencoded") {
            return Pairs(parsing: text).all.map { pair in
                SecretNames.holdsSecret(pair.name, pair.value)
                    ? "--data-urlencode \"\(pair.name)=$\(SecretNames.variable(pair.name))\""
                    : "--data-urlencode " + Self.quoted(pair.name + "=" + pair.value)
            }
        }
        guard let json = try? JSON.parse(body) else { return ["--data-binary @body"] }
        var usesVariables = false
        let replaced = Self.withVariables(json, &usesVariables)
        let word = usesVariables ? "\"" + Self.escaped(replaced.serialized) + "\"" : Self.quoted(json.serialized)
        // Replace the marks by the dollar signs of the shell variables, after all other dollar signs were escaped.
        return ["-d " + word.split(separator: Self.mark, omittingEmptySubsequences: false).joined(separator: "$")]
    }

    private static let mark: Character = "\u{E000}"

    private static func withVariables(_ value: JSON, _ used: inout Bool) -> JSON {
        switch value {
        case .object(let members):
            var out: [JSON.Member] = []
            for member in members {
                if case .string(let text) = member.value,
                    member.name == "callback_url" || SecretNames.holdsSecret(member.name, text)
                {
                    used = true
                    out.append(
                        .init(name: member.name, value: .string("\(mark)" + SecretNames.variable(member.name))))
                } else {
                    out.append(.init(name: member.name, value: withVariables(member.value, &used)))
                }
            }
            return .object(out)
        default: return value
        }
    }

    /// Returns a header field as an argument of curl; nil for a field that the line leaves out.
    private static func header(_ name: String, _ value: String) -> String? {
        switch name.lowercased() {
        case "content-type": return value.hasPrefix("application/x-www-form") ? nil : quoted("\(name): \(value)")
        case "accept": return value == "*/*" ? nil : quoted("\(name): \(value)")
        case "authorization":
            let scheme = value.prefix { $0 != " " }
            return "\"\(name): \(scheme) $\(scheme.lowercased() == "basic" ? "BASIC" : "ACCESS_TOKEN")\""
        case "dpop": return "\"\(name): $PROOF\""
        case "coatcheck-presence": return "\"\(name): $PRESENCE\""
        case "cookie":
            let pairs = value.split(separator: ";").map { pair in
                let name = String(pair.prefix { $0 != "=" }).trimmingSpaces
                return name + "=$" + SecretNames.variable(name)
            }
            return "\"\(name): \(pairs.joined(separator: "; "))\""
        default: return nil
        }
    }

    private static func address(_ base: String, _ target: String) -> String {
        let halves = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2 else { return "\"$\(base)\(escaped(target))\"" }
        let query = halves[1].split(separator: "&").map { part in
            let name = String(part.prefix { $0 != "=" })
            let value = FormCoding.decode(part.dropFirst(name.count + 1))
            return SecretNames.holdsSecret(name, value)
                ? "\(name)=$\(SecretNames.variable(name))" : escaped(String(part))
        }
        return "\"$\(base)\(escaped(String(halves[0])))?\(query.joined(separator: "&"))\""
    }

    private static func quoted(_ text: String) -> String {
        text.contains("'") ? "\"" + escaped(text) + "\"" : "'" + text + "'"
    }

    /// Returns the text, escaped for double quotes in a shell.
    private static func escaped(_ text: String) -> String {
        var out = ""
        for character in text {
            if "\\\"$`".contains(character) { out.append("\\") }
            out.append(character)
        }
        return out
    }
}
