import Testing

@testable import Sandbox

@Suite("The cookies of the playground's phone", .timeLimit(.minutes(1)))
struct CookieJarTests {
    @Test(
        "The phone receives a malformed cookie → the phone ignores it",
        arguments: ["", "=x", "name", ";", " ; a=b", "; Max-Age=1"])
    func refused(field: String) {
        let jar = CookieJar()
        jar.take(field)
        #expect(jar.field == nil)
    }

    @Test("A cookie is set again → replaced; set with Max-Age 0 or less → removed")
    func life() {
        let jar = CookieJar()
        jar.take("a=1; Path=/; HttpOnly; Max-Age=60")
        jar.take("b=x=y")
        jar.take("a=2")
        #expect(jar.field == "b=x=y; a=2" && jar["a"] == "2")
        jar.take("a=; Path=/; max-age=0")
        #expect(jar.field == "b=x=y" && jar["a"] == nil)
        jar.take("b=; Max-Age=-1")
        #expect(jar.field == nil)
    }

    @Test(
        "A session cookie among other cookies, with or without `__Host-` → found", arguments: ["", "__Host-"])
    func session(prefix: String) {
        let jar = CookieJar()
        jar.take(prefix + "coatcheck-login=1")
        jar.take(prefix + "coatcheck-pass=2")
        #expect(jar.session == nil)
        jar.take(prefix + "coatcheck=3")
        #expect(jar.session?.name == prefix + "coatcheck" && jar.session?.value == "3")
    }

    @Test("An emptied cookie jar → sends no cookie")
    func cleared() {
        let jar = CookieJar()
        jar.take("a=1")
        jar.take("b=2")
        jar.clear()
        #expect(jar.field == nil && jar["a"] == nil)
    }
}
