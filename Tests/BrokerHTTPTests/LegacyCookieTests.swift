import Broker
import Testing

@testable import BrokerHTTP

@Suite("Cookies of old systems")
struct LegacyCookieTests {
    private func read(_ fields: String..., name: String = "sid") -> Result<String?, LegacyCookie.Fault> {
        LegacyCookie.read(name, in: fields)
    }

    @Test("The cookie or a piece of it comes twice → refused, even with equal values")
    func twice() {
        let fault = Result<String?, LegacyCookie.Fault>.failure(.init(code: .duplicate))
        #expect(read("sid=a; sid=a") == fault)
        #expect(read("sid=a", "x=1; sid=b") == fault)
        #expect(read("sid_0=a; sid_1=b; sid_1=c") == fault)
    }

    @Test("The cookie is over 16 KiB, or has other bytes than ASCII text → refused")
    func bounds() {
        let long = String(repeating: "x", count: 8192)
        #expect(read("sid=\(long)\(long)") == .success(long + long))
        #expect(read("sid=\(long)\(long)x") == .failure(.init(code: .tooLong)))
        #expect(read("sid_0=\(long); sid_1=\(long); sid_2=x") == .failure(.init(code: .tooLong)))
        #expect(read("sid=a\u{1}b") == .failure(.init(code: .malformed)))
        #expect(read("sid=ä") == .failure(.init(code: .malformed)))
    }

    @Test("The cookie is absent, empty or has another name → nil")
    func absent() {
        for field in ["", "sid", "sid=", "SID=a", "xsid=a", "sid2=a", "sid_10=a", "sid_00=a", "sid_1=a", "sid-0=a"] {
            #expect(read(field) == .success(nil), "\(field)")
        }
    }

    @Test("The value → byte for byte, with its quotes and escapes")
    func raw() {
        #expect(read("a=1;  sid=s%3Aab.c/d+e==; b=2") == .success("s%3Aab.c/d+e=="))
        #expect(read("sid=\"quoted\"") == .success("\"quoted\""))
        #expect(read("connect.sid=x", name: "connect.sid") == .success("x"))
    }

    @Test("A long value is split into pieces → joined in their order up to the first gap; the whole cookie wins")
    func pieces() {
        #expect(read("sid_1=b; sid_0=a; sid_2=c") == .success("abc"))
        #expect(read("sid.1=b; sid.0=a") == .success("ab"))
        #expect(read("sid_0=a; sid_2=c") == .success("a"))
        #expect(read("sid_0=a; sid=whole") == .success("whole"))
    }
}
