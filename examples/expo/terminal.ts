import { Coatcheck, MemoryStorage } from './coatcheck'
import { Shop } from './shop'

declare const process: { argv: string[]; env: { [name: string]: string | undefined }; exit(status: number): never }

/** A browser for tests. The sandbox's page signs Ana in at once if its URL has her name. */
const browser = {
  open: async (page: string) => {
    const callback = (await fetch(`${page}&sandbox_user=ana`, { redirect: 'manual' })).headers.get('location')
    if (!callback) throw new Error('the sandbox does not lead back')
    return callback
  },
}

/**
 * Runs the model in a terminal: signs in, calls the API, and signs out. With the argument `follow`, it waits for the end of the
 * session instead of the sign-out.
 */
async function main() {
  const broker = process.env.COATCHECK_URL ?? ''
  const shop = new Shop(new Coatcheck({ broker, client: 'android', transport: 'bearer', storage: new MemoryStorage(), browser }))
  // Prints a state, and exits after a failure.
  const report = (words: string, state: unknown) => {
    console.log(words, typeof state === 'string' ? state : JSON.stringify(state))
    if (!shop.screen.message) return
    console.log('failed:', shop.screen.message)
    process.exit(1)
  }
  await shop.start()
  report('at the start:', shop.screen)
  await shop.signIn()
  report('after the sign-in:', shop.screen)
  if (!shop.screen.user) process.exit(1)
  const following = shop.follow(new AbortController().signal)
  await shop.loadOrders()
  report('the API answers', shop.screen.orders)
  if (!process.argv.includes('follow')) {
    await shop.signOut()
    report('after the sign-out:', shop.screen)
  }
  await following
  report("the session's end:", shop.screen.ended ?? 'signed out here')
}

main()
