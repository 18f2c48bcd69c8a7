import Broker

/// Reads the fields of a form request by name and collects all faults, like `RequestObject`.
struct RequestForm {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: [String] = []

    /// Parses a form of unique, well-formed fields (RFC 6749 section 3.1).
    ///
    /// Only the field `repeatable` may occur more than once.
    init(parsing bytes: [UInt8], repeatable: String? = nil) throws(BrokerProblem) {
        do throws(FormPairs.Failure) {
            pairs = try FormPairs(parsing: bytes, repeatable: repeatable, skipsEmpty: true)
        } catch { throw Self.problem(error) }
    }

    /// Parses a form for the fields that its route knows.
    init(parsing bytes: [UInt8], for names: FormNames) throws(BrokerProblem) {
        pairs = try Self.pairs(bytes, for: names)
    }

    /// Returns the pairs of a form, for the fields that its route knows.
    static func pairs(_ bytes: [UInt8], for names: FormNames) throws(BrokerProblem) -> FormPairs {
        do throws(FormPairs.Failure) { return try FormPairs(reading: names, of: bytes) } catch {
            throw problem(error, names)
        }
    }

    private static func problem(_ failure: FormPairs.Failure, _ names: FormNames? = nil) -> BrokerProblem {
        let words = failure.text(names)
        var fault = FieldFault("", .malformed)
        switch failure {
        case .duplicate(let name): fault = FieldFault(name.firstScalars(64), .duplicate)
        case .malformed(let form): if let name = form.name { fault = FieldFault(name, .malformed) }
        case .tooManyPairs: fault = FieldFault("", .tooLong)
        }
        return BrokerProblem(
            .invalidRequest, detail: "The form is malformed: \(words).", privateDetail: words,
            errors: [fault])
    }

    /// Returns an optional field; an empty field counts as missing (RFC 6749 section 3.2).
    mutating func optional(
        _ name: String, maximum: Int, where allows: (Unicode.Scalar) -> Bool = RequestText.isVisible
    ) -> String? {
        read.append(name)
        guard let text = pairs[name], !text.isEmpty else { return nil }
        return checked(text, name, maximum, allows)
    }

    /// Returns a field of visible ASCII.
    mutating func visible(_ name: String, required: Bool, maximum: Int) -> String? {
        text(name, required: required, maximum: maximum, where: RequestText.isVisible)
    }

    /// Returns a field, and reports a fault unless `allows` accepts all its characters.
    mutating func text(
        _ name: String, required: Bool, maximum: Int, where allows: (Unicode.Scalar) -> Bool
    ) -> String? {
        read.append(name)
        guard let text = pairs[name] else {
            if required { faults.append(FieldFault(name, .required)) }
            return nil
        }
        return checked(text, name, maximum, allows)
    }

    /// Returns all values of a repeatable field, of visible ASCII.
    mutating func list(_ name: String, maximum: Int, count: Int) -> [String] {
        read.append(name)
        let all = pairs.values(name)
        if all.count > count { faults.append(FieldFault(name, .tooLong)) }
        return all.prefix(count).compactMap { checked($0, name, maximum, RequestText.isVisible) }
    }

    private mutating func checked(
        _ text: String, _ name: String, _ maximum: Int, _ allows: (Unicode.Scalar) -> Bool
    ) -> String? {
        guard let code = RequestText.fault(in: text, length: 1...maximum, where: allows) else { return text }
        faults.append(FieldFault(name, code))
        return nil
    }

    /// Adds a fault that the caller found.
    mutating func fault(_ name: String, _ code: FieldFault.Code) { faults.append(FieldFault(name, code)) }

    /// Adds a fault if a field is present and differs from its only allowed value, or if a required field is missing.
    mutating func expect(_ name: String, _ value: String, required: Bool) {
        guard let text = visible(name, required: required, maximum: 256), text != value else { return }
        faults.append(FieldFault(name, .notAllowed))
    }

    /// Throws all faults that were found.
    ///
    /// Unknown fields count as faults unless they are to be ignored.
    consuming func finish(ignoringUnknown: Bool = false) throws(BrokerProblem) {
        let unknown =
            ignoringUnknown ? [] : pairs.pairs.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let all = faults + unknown.prefix(16).map { FieldFault($0.firstScalars(64), .unknown) }
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, errors: all) }
    }
}

/// Reads query parameters by name and collects all faults; unknown parameters are faults too.
struct RequestQuery {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: [String] = []

    /// Parses the text after the `?`; nil is an empty query.
    init(parsing query: Substring?) throws(BrokerProblem) {
        do throws(FormPairs.Failure) { pairs = try FormPairs(parsing: query ?? "", maximumPairs: 16) } catch {
            if case .duplicate(let name) = error {
                throw BrokerProblem(.invalidRequest, errors: [FieldFault(name.firstScalars(64), .duplicate)])
            }
            let words = error.text(maximumPairs: 16)
            throw BrokerProblem(
                .invalidRequest, detail: "The query is malformed: \(words).", privateDetail: words)
        }
    }

    /// Returns an optional parameter.
    mutating func text(_ name: String, maximum: Int) -> String? {
        read.append(name)
        guard let text = pairs[name] else { return nil }
        guard (1...maximum).contains(text.utf8.count) else {
            faults.append(FieldFault(name, text.isEmpty ? .tooShort : .tooLong))
            return nil
        }
        return text
    }

    /// Adds a fault that the caller found.
    mutating func fault(_ name: String, _ code: FieldFault.Code) { faults.append(FieldFault(name, code)) }

    /// Throws all faults that were found.
    consuming func finish() throws(BrokerProblem) {
        let unknown = pairs.pairs.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let all = faults + unknown.map { FieldFault($0.firstScalars(64), .unknown) }
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, errors: all) }
    }
}

/// Checks the texts in requests against the alphabets that openapi.yaml defines.
enum RequestText {
    /// Returns the fault in a text, or nil.
    static func fault(
        in text: String, length: ClosedRange<Int>, where allows: (Unicode.Scalar) -> Bool
    ) -> FieldFault.Code? {
        // A character has at most four bytes, so this bounds the work for an endless text.
        guard text.utf8.count <= length.upperBound * 4 else { return .tooLong }
        let count = text.unicodeScalars.count
        guard count <= length.upperBound else { return .tooLong }
        guard count >= length.lowerBound else { return .tooShort }
        return text.unicodeScalars.allSatisfy(allows) ? nil : .malformed
    }

    /// Returns whether the character is printable, which excludes control characters.
    static func isPrintable(_ scalar: Unicode.Scalar) -> Bool { scalar.value >= 0x20 && scalar.value != 0x7F }

    /// Returns whether the character is visible ASCII.
    static func isVisible(_ scalar: Unicode.Scalar) -> Bool { (0x21...0x7E).contains(scalar.value) }

    /// Returns whether the character is visible ASCII or a space.
    static func isASCIIText(_ scalar: Unicode.Scalar) -> Bool { (0x20...0x7E).contains(scalar.value) }

    /// Returns whether the character belongs to base64url's alphabet.
    static func isBase64URL(_ scalar: Unicode.Scalar) -> Bool {
        isAlphanumeric(scalar) || scalar == "-" || scalar == "_"
    }

    /// Returns whether the character belongs to RFC 7636's alphabet for verifiers.
    static func isVerifier(_ scalar: Unicode.Scalar) -> Bool {
        isBase64URL(scalar) || scalar == "." || scalar == "~"
    }

    /// Returns whether the character is allowed in a child session's name.
    static func isPlaceName(_ scalar: Unicode.Scalar) -> Bool {
        ("a"..."z").contains(scalar) || ("0"..."9").contains(scalar) || scalar == "-"
    }

    /// Returns whether the character is allowed in the name of a parameter or an attribute.
    static func isNamePart(_ scalar: Unicode.Scalar) -> Bool { isBase64URL(scalar) || scalar == "." }

    /// Returns whether the character is a letter or digit of ASCII.
    static func isAlphanumeric(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }

    /// Returns whether the character is allowed in a scope list, or separates its words (RFC 6749 section 3.3).
    static func isScopeList(_ scalar: Unicode.Scalar) -> Bool {
        isASCIIText(scalar) && scalar != "\"" && scalar != "\\"
    }
}
