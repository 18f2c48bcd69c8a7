/// Shows the parts of requests and answers, but each secret only with its first characters.
enum Shortened {
    /// Returns a secret's first characters, at most a third of it.
    static func secret(_ value: String) -> String {
        guard !value.isEmpty else { return "" }
        return String(value.prefix(min(6, value.count / 3))) + "…"
    }

    /// Returns a path and its query with shortened secrets.
    static func target(_ target: String) -> String {
        let halves = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2 else { return text(target) }
        return text(String(halves[0])) + "?" + form(String(halves[1]))
    }

    /// Returns the value of a header field with shortened secrets.
    static func field(_ name: String, _ value: String) -> String {
        switch name.lowercased() {
        case "authorization":
            let halves = value.split(separator: " ", maxSplits: 1)
            return halves.count == 2 ? halves[0] + " " + secret(String(halves[1])) : secret(value)
        case "cookie":
            return value.split(separator: ";").map { cookie(String($0).trimmingSpaces) }.joined(separator: "; ")
        case "set-cookie":
            let parts = value.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)
            return cookie(String(parts.first ?? "")) + (parts.count > 1 ? ";" + parts[1] : "")
        case "location": return target(value)
        default: return text(value)
        }
    }

    /// The header and the claims of a proof (RFC 9449), which are public.
    static func proof(_ value: String) -> [String] {
        value.split(separator: ".").prefix(2)
            .compactMap { Base64URL.decode(String($0)) }
            .compactMap { try? JSON.parse($0) }
            // A space after each comma lets the page break lines between members only.
            .map { json($0).serialized.split(separator: ",").joined(separator: ", ") }
    }

    /// Returns a body as the diagram shows it, with shortened secrets.
    ///
    /// JSON is set in lines, a form stands on one line, of a page only the title is shown, and of other text the beginning.
    static func body(_ bytes: [UInt8], type: String) -> String {
        guard !bytes.isEmpty else { return "" }
        let text = String(decoding: bytes, as: UTF8.self)
        if type.contains("json"), let json = try? JSON.parse(bytes) { return self.json(json).indented() }
        if type.hasPrefix("application/x-www-form-urlencoded") { return form(text) }
        if type.hasPrefix("text/html") { return "(a page: " + title(of: text) + ")" }
        return Shortened.text(String(text.prefix(600)))
    }

    /// A JSON value with its secrets shortened.
    static func json(_ value: JSON) -> JSON {
        switch value {
        case .object(let members):
            .object(
                members.map { member in
                    if case .string(let text) = member.value, SecretNames.holdsSecret(member.name, text) {
                        return .init(name: member.name, value: .string(secret(text)))
                    }
                    return .init(name: member.name, value: json(member.value))
                })
        case .array(let values): .array(values.map(json))
        case .string(let string): .string(string.contains("?") ? target(string) : text(string))
        default: value
        }
    }

    /// Any text, with every random-looking part shortened.
    static func text(_ text: String) -> String {
        var out = ""
        var run = ""
        func end() {
            out += looksRandom(run) ? secret(run) : run
            run = ""
        }
        for character in text {
            if character.isASCII, character.isLetter || character.isNumber || character == "-" || character == "_" {
                run.append(character)
            } else {
                end()
                out.append(character)
            }
        }
        end()
        return out
    }

    /// Returns a query or a form body with shortened secrets.
    private static func form(_ raw: String) -> String {
        raw.split(separator: "&", omittingEmptySubsequences: false).map { part in
            let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2 else { return text(String(part)) }
            let value = FormCoding.decode(halves[1])
            if SecretNames.holdsSecret(FormCoding.decode(halves[0]), value) { return halves[0] + "=" + secret(value) }
            return halves[0] + "=" + text(String(halves[1]))
        }.joined(separator: "&")
    }

    private static func cookie(_ pair: String) -> String {
        let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        return halves.count == 2 ? halves[0] + "=" + secret(String(halves[1])) : secret(pair)
    }

    /// Whether a word looks random, because it is long and has small letters, capital letters and digits.
    ///
    /// Handles of sessions and logins are public names, so they are exempt.
    private static func looksRandom(_ word: String) -> Bool {
        guard word.utf8.count >= 22, !word.hasPrefix("ses_"), !word.hasPrefix("lgn_") else { return false }
        return word.contains(where: \.isNumber) && word.contains(where: \.isUppercase)
            && word.contains(where: \.isLowercase)
    }

    private static func title(of page: String) -> String {
        guard let start = page.firstRange(of: "<title>"), let end = page.firstRange(of: "</title>"),
            start.upperBound < end.lowerBound
        else { return "\(page.utf8.count) bytes" }
        return String(page[start.upperBound..<end.lowerBound])
    }
}
