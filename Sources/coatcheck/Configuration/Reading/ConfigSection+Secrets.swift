import Broker
import Yams

extension ConfigSection {
    /// Reads a secret: `{env: NAME}`, `{file: path}` or inline, checked for weakness; nil if it is absent or unusable.
    ///
    /// Messages contain no part of the secret.
    func secret(_ key: String) -> Secret? {
        guard let entry = node(key) else { return nil }
        let text: String?
        if entry.node.scalar != nil {
            text = entry.node.scalar?.string
            context.noteInlineSecret(path: child(key), line: entry.line)
        } else {
            text = referred(section(key), key)
        }
        guard let text else { return nil }
        // RFC 6749 appendix A.2 allows spaces, but a space at the beginning or end is probably a mistake.
        guard text.unicodeScalars.allSatisfy({ (0x20...0x7E).contains($0.value) }), !text.hasPrefix(" "),
            !text.hasSuffix(" ")
        else {
            report(key, "has to be printable ASCII, without a space at an end")
            return nil
        }
        if let fault = WeakSecret.fault(of: text) {
            report(key, fault)
            return nil
        }
        return Secret(text)
    }

    /// Reads a text that may contain a secret: `{env: NAME}`, `{file: path}` or inline.
    func referredText(_ key: String, limit: Int) -> String? {
        guard let entry = node(key) else { return nil }
        if entry.node.scalar != nil { return text(key, limit: limit) }
        guard let text = referred(section(key), key) else { return nil }
        guard !text.isEmpty, text.utf8.count <= limit, text.unicodeScalars.allSatisfy({ $0.value >= 0x20 }) else {
            report(key, "is empty, too long or has control characters")
            return nil
        }
        return text
    }

    private func referred(_ reference: ConfigSection, _ key: String) -> String? {
        let variable = reference.text("env")
        let file = reference.text("file", limit: 4096)
        switch (variable, file) {
        case (let name?, nil):
            guard let value = context.sources.environment(name) else {
                report(key, "names an environment variable that is not set\(Self.named(name))")
                return nil
            }
            context.note(Secret(value), for: child(key))
            return value
        case (nil, let path?):
            return content(of: context.sources.resolve(path), key)
        default:
            if !reference.has("env") && !reference.has("file") || reference.has("env") && reference.has("file") {
                report(key, "has to be `{env: NAME}` or `{file: path}`")
            }
            return nil
        }
    }

    private func content(of path: String, _ key: String) -> String? {
        guard let bytes = context.sources.readFile(path, for: key, of: self) else { return nil }
        guard !bytes.isEmpty else {
            report(key, "names a file that is empty: \(ConfigContext.printable(path, 255))")
            return nil
        }
        if context.sources.isOpenToOthers(path) {
            warn(key, "names a file that others may read; its mode should be 0600")
        }
        // Remove one line end, because editors and `echo` add one.
        var text = String(decoding: bytes, as: UTF8.self)
        if text.hasSuffix("\r\n") || text.hasSuffix("\n") { text.removeLast() }
        context.note(Secret(text), for: child(key))
        return text
    }

    /// Returns `: NAME` if the text has the form of a variable's name, for messages.
    ///
    /// Any other text could be the secret itself, so the message hides it.
    static func named(_ variable: String) -> String {
        let isName =
            variable.utf8.count <= 64
            && variable.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
        return isName
            ? ": \(variable)" : " (its name is hidden, because it has other characters than capitals, digits and `_`)"
    }
}
